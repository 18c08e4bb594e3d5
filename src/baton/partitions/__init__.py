"""Partitions by name: who holds which samples.

A partition is a function (labels [N], clients M, *, options) -> owner [N]: the client of each sample, so that a sample
cannot be at two clients. To add one: its file and one line in PARTITIONS.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from baton.partitions.classes import classes
from baton.partitions.dirichlet import dirichlet
from baton.partitions.exdir import exdir
from baton.partitions.from_file import file
from baton.partitions.iid import iid
from baton.partitions.natural import natural
from baton.partitions.shards import shards

__all__ = ["PARTITIONS", "Owner", "natural"]

Owner = NDArray[np.int64]

PARTITIONS: dict[str, Callable[..., Owner]] = {
    "iid": iid,
    "dirichlet": dirichlet,
    "classes": classes,
    "shards": shards,
    "exdir": exdir,
    "natural": natural,
    "file": file,
}
