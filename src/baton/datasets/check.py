"""Whether a data set's files are whole, and whether they are the official ones."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from baton.datasets import cifar10, cinic10, find, idx, official
from baton.datasets.decoded import Arrays


class Verdict(NamedTuple):
    """What checking found: every file was read whole and holds images and labels as it should."""

    name: str
    state: str  # "official", "other pixels" with the official labels, "other data", or "official counts"
    format: str
    folder: Path
    train: int  # images
    test: int


def check(name: str) -> Verdict:
    """Read every file of the data set that would be used; what is broken raises BadInput."""
    found = find.find(name)
    with find.reading(found):
        if found.format == "IDX files":
            arrays = idx.decode(found)
            state = _idx_state(found)
        elif name == "cifar10":
            arrays = cifar10.decode(found)
            state = _cifar10_state(arrays)
        else:
            arrays = cinic10.decode(found)
            state = _cinic10_state(arrays)
    return Verdict(name, state, found.format, found.folder, len(arrays.y), len(arrays.test_y))


def _state(pixels: bool, labels: bool) -> str:
    return "official" if pixels and labels else "other pixels" if labels else "other data"


def _idx_state(found: find.Found) -> str:
    contents = (idx.content(path, 3 if "images" in path.name else 1)[0] for path in found.files)
    right = [
        hashlib.sha256(content).hexdigest() == digest
        for content, digest in zip(contents, official.IDX_CONTENT[found.name], strict=True)
    ]
    return _state(right[0] and right[2], right[1] and right[3])


def _cifar10_state(arrays: Arrays) -> str:
    labels = np.concatenate([arrays.y, arrays.test_y]).astype(np.uint8)
    pixels = np.concatenate([arrays.x, arrays.test_x]).reshape(len(labels), -1)
    records = np.concatenate([labels[:, None], pixels], 1)  # as in the binary version
    batches = (records[i : i + cifar10.RECORDS] for i in range(0, len(records), cifar10.RECORDS))
    digests = tuple(hashlib.md5(batch.tobytes(), usedforsecurity=False).hexdigest() for batch in batches)
    same = hashlib.sha256(labels.tobytes()).hexdigest() == official.CIFAR10_LABELS
    return _state(digests == official.CIFAR10_BATCHES, same)


def _cinic10_state(arrays: Arrays) -> str:
    right = all(
        (np.bincount(y, minlength=cinic10.CLASSES) == official.CINIC10_IMAGES // cinic10.CLASSES).all()
        for y in (arrays.y, arrays.test_y)
    )
    return "official counts" if right else "other data"
