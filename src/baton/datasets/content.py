"""What tells the samples of a data set from others under the same name: 16 hex digits of their SHA-256."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baton.datasets.base import Dataset

Part = tuple[str, tuple[int, ...], NDArray[np.uint8]]  # type, shape, bytes


def of_arrays(arrays: Iterable[NDArray[Any]]) -> str:
    """Of arrays: their types, shapes and bytes."""
    flat = ((a.dtype.str, a.shape, np.ascontiguousarray(a).reshape(-1).view(np.uint8)) for a in arrays)
    return _digest(flat)


def of_dataset(data: Dataset) -> str:
    """Of all tensors of a data set, its owners, weights and classes among them, and of the names of its sites.

    What a data set has not got is left out, so that those of before there was such a thing keep their ids.
    """
    tensors = (data.x, data.y, data.test_x, data.test_y, torch.tensor(data.classes), data.owner)
    parts = [_part(each) for each in tensors if each is not None]
    for field in ("test_owner", "weight"):
        if (own := getattr(data, field)) is not None:
            kind, shape, held = _part(own)
            parts.append((f"{field} {kind}", shape, held))
    if data.names:
        text = np.frombuffer(json.dumps(data.names).encode(), np.uint8)
        parts.append(("names", (len(data.names),), text))
    return _digest(parts)


def _part(tensor: Tensor) -> Part:
    dense = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    return str(tensor.dtype), tuple(tensor.shape), dense.cpu().contiguous().view(-1).view(torch.uint8).numpy()


def _digest(parts: Iterable[Part]) -> str:
    digest = hashlib.sha256()
    for kind, shape, data in parts:
        digest.update(f"{kind} {shape}\n".encode())
        digest.update(data.data)
    return digest.hexdigest()[:16]
