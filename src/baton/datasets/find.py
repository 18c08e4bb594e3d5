"""Where data sets lie: --data-dir, $BATON_DATA, the user's cache folder, the system's place; the first that has any."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from baton import synonyms
from baton.caches import cache
from baton.errors import BadInput, nearest


class Layout(NamedTuple):
    """One form in which a data set is distributed."""

    format: str
    folders: tuple[str, ...]  # under a data folder, any of these
    needs: tuple[str, ...]  # files or folders in there, in the order they are read
    endings: tuple[str, ...] = ("",)  # that a file's name may have, in order of preference
    system: tuple[str, ...] = ()  # folders outside the data folders
    what: str = ""  # to put there, where the list of files would not say it


class Found(NamedTuple):
    """A data set's files in one place."""

    name: str
    format: str
    folder: Path
    files: tuple[Path, ...]  # what is there of `needs`
    missing: tuple[str, ...]  # and what is not


def _idx(folder: str, system: tuple[str, ...] = ()) -> tuple[Layout, ...]:
    parts = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return (Layout("IDX files", (folder,), tuple(f"{part}-ubyte" for part in parts), ("", ".gz"), system),)


_BATCHES = (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")

LAYOUTS: dict[str, tuple[Layout, ...]] = {
    "mnist": _idx("mnist"),
    "fashion_mnist": _idx("fashion-mnist", ("/usr/share/datasets/fashion-mnist",)),
    "cifar10": (
        Layout("python batches", ("cifar-10-batches-py",), _BATCHES, what="the files of cifar-10-python.tar.gz"),
        Layout(
            "binary batches",
            ("cifar-10-batches-bin",),
            tuple(f"{batch}.bin" for batch in _BATCHES),
            what="those of cifar-10-binary.tar.gz",
        ),
    ),
    "cinic10": (
        Layout(
            "image folders",
            ("cinic-10", "CINIC-10"),
            ("train", "test"),
            what="train and test of CINIC-10.tar.gz, or other folders of ten class folders of 32 x 32 images,",
        ),
    ),
    "heart": (
        Layout(
            "hospital files",
            ("heart",),
            tuple(f"processed.{site}.data" for site in ("cleveland", "hungarian", "switzerland", "va")),
            what="the four processed.*.data files of heart+disease.zip",
        ),
    ),
}


def roots() -> list[Path]:
    """Data folders in the order they are looked through."""
    given = (Path(p).absolute() for p in os.environ.get("BATON_DATA", "").split(os.pathsep) if p)
    return [*given, cache() / "data"]


def use(folder: Path) -> None:
    """Look in this folder first from now on, in this process and those it starts."""
    if not folder.is_dir():
        raise BadInput(
            f"data-dir: {str(folder)!r} is not a folder; one that holds mnist/, cifar-10-batches-py/ is right"
        )
    before = os.environ.get("BATON_DATA")
    os.environ["BATON_DATA"] = os.pathsep.join(filter(None, (str(folder.resolve()), before)))


def spelled(name: str) -> str:
    """Return the registered name of a data set of files, which may be written as the paper writes it."""
    return synonyms.registered("dataset", name, LAYOUTS) or name


def layouts(name: str) -> tuple[Layout, ...]:
    """The forms in which a data set is distributed."""
    if name not in LAYOUTS:
        raise BadInput(f"data: no data set of files named {name!r}; {nearest(name, LAYOUTS)}")
    return LAYOUTS[name]


def look(name: str, folders: list[Path] | None = None) -> Found | None:
    """The first place that has any part of the data set; folders: only under these."""
    forms = layouts(name)
    places = [(form, root / sub) for root in folders or roots() for form in forms for sub in form.folders]
    if folders is None:
        places += [(form, Path(place)) for form in forms for place in form.system]
    for form, place in places:
        there = {need: [p for end in form.endings if (p := place / f"{need}{end}").exists()] for need in form.needs}
        files = tuple(paths[0] for paths in there.values() if paths)
        if files:
            missing = tuple(need + form.endings[-1] for need, paths in there.items() if not paths)
            return Found(name, form.format, place, files, missing)
    return None


def wanted(name: str, root: Path) -> str:
    """What to put where, for the end of an error line."""
    forms = layouts(name)
    what = [form.what or ", ".join(need + form.endings[-1] for need in form.needs) for form in forms]
    return "put " + ", or ".join(f"{w} into {root / form.folders[0]}" for w, form in zip(what, forms, strict=True))


def find(name: str) -> Found:
    """The data set's files, all of them."""
    found = look(name)
    if found is None:
        places = ", ".join(str(root) for root in roots())
        raise BadInput(
            f"dataset: no {name} in {places}; {wanted(name, roots()[0])}, or let 'baton data get {name}' download it"
        )
    if found.missing:
        lacks = ", ".join(found.missing)
        raise BadInput(f"dataset: {name} in {found.folder} lacks {lacks}; add it, or let 'baton data get {name}' do so")
    return found


@contextmanager
def reading(found: Found) -> Iterator[None]:
    """What the system does not let us read is bad input too."""
    try:
        yield
    except OSError as error:
        where = error.filename or found.folder
        raise BadInput(f"dataset: {where}: cannot be read ({error.strerror or error})") from None
