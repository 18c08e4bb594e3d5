"""`images:FOLDER`: pictures in class folders, or in a folder a site with class folders in each."""

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton import limits
from baton.datasets.arrays import Part, made
from baton.datasets.base import Dataset, Source
from baton.datasets.decoded import cached
from baton.datasets.table.files import settle
from baton.datasets.table.split import share
from baton.errors import BadInput
from baton.names import First
from baton.notice import once
from baton.regular import opened

if TYPE_CHECKING:
    from PIL import Image

ENDINGS = (".png", ".jpg", ".jpeg")
DEEP = ("I;16", "I;16B", "I;16L", "I")  # Pillow's words for grey images of 16 bits
GREY = ("1", "L", *DEEP)  # and for all of one channel
BITS = 8  # of a grey value, as it is kept
LARGEST = 64 << 20  # bytes of a file


class Picture(NamedTuple):
    """One file."""

    path: Path
    label: str
    site: str


class Pictures(NamedTuple):
    """All of them, as they are kept."""

    x: NDArray[np.uint8]  # [N, C, H, W]
    y: NDArray[np.int64]  # [N] places in the names of classes
    site: NDArray[np.int64]  # [N] and of sites
    told: NDArray[np.uint8]  # [classes, sites, bits of the deepest grey image], as JSON


def load(
    clients: int, *, path: Annotated[str, First(settle)], size: int = 0, test: float = 0.2, split_seed: int = 0
) -> Dataset:
    """Class folders, or site folders of class folders, of PNG or JPEG images; size: scaled to so many pixels a side."""
    if size < 0:
        raise BadInput(f"dataset: images has size={size}; a number of pixels is right")
    share(test)
    try:
        found = listing(Path(os.path.expanduser(path)))
        files = [each.path.absolute() for each in found]
        kept = cached("images", files, lambda: decode(found, size), Pictures, how=f"{size}, 16 bits scaled").arrays
    except OSError as error:
        raise BadInput(f"dataset: {error.filename or path}: cannot be read ({error.strerror or error})") from None
    classes, sites, bits = json.loads(kept.told.tobytes())
    if bits > BITS:
        once(f"dataset: {path}: grey images of 16 bits; their largest value has {bits}, and {(1 << bits) - 1} is white")
    y = np.array(classes)[kept.y]
    return made(Part(kept.x, y, np.array(sites)[kept.site] if len(sites) > 1 else None), test, None, split_seed)


def listing(root: Path) -> list[Picture]:
    """Every image, by site, class and name."""
    if not root.is_dir():
        what = "is no folder" if root.exists() else "is not there"
        raise BadInput(f"dataset: {root}: {what}; a folder of class folders, or of site folders, is right")
    found: list[Picture] = []
    for first in _folders(root):
        if own := _images(first):
            found += [Picture(path, first.name, "") for path in own]
            continue
        for second in _folders(first):
            found += [Picture(path, second.name, first.name) for path in _images(second)]
    if not found:
        raise BadInput(f"dataset: {root}: has no PNG or JPEG image in its folders, or in theirs")
    if len({bool(each.site) for each in found}) > 1:
        odd = next(each for each in found if not each.site)
        raise BadInput(f"dataset: {root}: {odd.label}/ holds images and other folders hold folders; one or the other")
    return found


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def _images(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.name.lower().endswith(ENDINGS) and not p.name.startswith("."))


def decode(found: list[Picture], size: int) -> Pictures:
    """All pixels; of one channel where every image is grey."""
    shapes = [_header(each.path) for each in found]
    grey = all(mode in GREY for mode, _ in shapes)
    right = (size, size) if size else shapes[0][1]
    for each, (_, own) in zip(found, shapes, strict=True):
        if not size and own != right:
            others = f"the first is {right[0]} x {right[1]}"
            raise BadInput(f"dataset: {each.path}: is {own[0]} x {own[1]}, and {others}; size={min(right)} scales all")
    channels = 1 if grey else 3
    pixels = len(found) * channels * right[0] * right[1]
    limits.fits(2 * pixels, f"dataset: {len(found):,} images of {right[0]} x {right[1]}")
    bits = max((_bits(each.path) for each, (mode, _) in zip(found, shapes, strict=True) if mode in DEEP), default=0)
    x = np.empty((len(found), channels, right[1], right[0]), np.uint8)
    for i, each in enumerate(found):
        x[i] = _pixels(each.path, right, grey, max(BITS, bits))
    classes, sites = sorted({each.label for each in found}), sorted({each.site for each in found})
    y = np.array([classes.index(each.label) for each in found], np.int64)
    site = np.array([sites.index(each.site) for each in found], np.int64)
    return Pictures(x, y, site, np.frombuffer(json.dumps([classes, sites, bits]).encode(), np.uint8).copy())


def _header(path: Path) -> tuple[str, tuple[int, int]]:
    """Mode and size; nothing is unpacked."""
    with _image(path) as image:
        return image.mode, image.size


def _bits(path: Path) -> int:
    """Return how many bits the largest value of a deep grey image has."""
    with _image(path) as image:
        return int(np.asarray(image).max()).bit_length()


def _pixels(path: Path, size: tuple[int, int], grey: bool, bits: int) -> NDArray[np.uint8]:
    """[C, H, W]; bits: of white, in deep grey images."""
    from PIL import Image

    with _image(path) as image:
        shown = image
        if image.mode in DEEP:  # Pillow itself would cut all above 255
            shares = np.asarray(image).astype(np.float64) / ((1 << bits) - 1)
            shown = Image.fromarray((shares * 255).round().astype(np.uint8))
        shown = shown.convert("L" if grey else "RGB")
        shown = shown if shown.size == size else shown.resize(size, Image.Resampling.BILINEAR)
        pixels = np.asarray(shown)
    return pixels[None] if grey else pixels.transpose(2, 0, 1)


@contextmanager
def _image(path: Path) -> Iterator["Image.Image"]:
    """A file, opened; whatever a broken one raises is one line."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with opened(path, LARGEST, field="dataset") as file, Image.open(file, formats=("PNG", "JPEG")) as image:
                yield image
        except BadInput:
            raise
        except Exception as error:  # a broken image can raise anything
            raise BadInput(f"dataset: {path}: is no readable PNG or JPEG image ({error})") from None


IMAGES = Source(load, model="mlp", clients=0)
