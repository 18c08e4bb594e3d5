"""Whether a data set's files are whole, and whether they are the official ones."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from baton import datasets
from baton.datasets import cifar10, cinic10, find, heart, idx, official
from baton.datasets.decoded import Arrays


class Verdict(NamedTuple):
    """What checking found: every file was read whole and holds images and labels as it should."""

    name: str
    state: str  # "official", "other pixels" with the official labels, "other data", or "official counts"
    format: str
    folder: Path
    train: int
    test: int
    what: str = "images"


class Summary(NamedTuple):
    """What a data set of one's own, or one that comes with the program, was taken for."""

    spec: str
    content: str
    sites: dict[str, tuple[int, int]]  # training and test samples; "all" where there are none
    shape: tuple[int, ...]  # of a sample
    classes: int  # 0: a number is to be told
    notes: tuple[str, ...]


def summary(spec: str) -> Summary:
    """Load a data set that is not one of official files; what is wrong with it raises BadInput."""
    spec = datasets.spelled(spec)
    data = datasets.load(spec, datasets.source(spec).clients)
    sites = {"all": (len(data.y), len(data.test_y))}
    if data.owner is not None:
        count = max(len(data.names), int(data.owner.max()) + 1)
        names = data.names or tuple(map(str, range(count)))
        train = data.owner.bincount(minlength=count).tolist()
        tests = [0] * count if data.test_owner is None else data.test_owner.bincount(minlength=count).tolist()
        sites |= {name: (a, b) for name, a, b in zip(names, train, tests, strict=True)}
    return Summary(spec, data.content, sites, tuple(data.x.shape[1:]), data.classes, data.notes)


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
        elif name == "heart":
            data = heart.dataset([heart.hospital(path) for path in found.files])
            state = "official" if heart.digest(found) == official.HEART_VALUES else "other data"
            return Verdict(name, state, found.format, found.folder, len(data.y), len(data.test_y), "patients")
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
