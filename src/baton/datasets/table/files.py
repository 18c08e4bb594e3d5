"""Which files a path means: one, those of a folder, or those that a pattern matches; then each is a site."""

import glob
import os
from pathlib import Path
from typing import NamedTuple

from baton.errors import BadInput, nearest

ENDINGS = (".csv", ".tsv", ".txt", ".parquet", ".pq")
PACKED = ".gz"


class File(NamedTuple):
    """One file of a table."""

    path: Path
    site: str  # "": it says itself, in a column, or not at all

    @property
    def parquet(self) -> bool:
        """Whether it is a Parquet file, by its name."""
        return self.path.suffix.lower() in (".parquet", ".pq")

    @property
    def tabs(self) -> bool:
        """Whether tabs part its columns, by its name."""
        return Path(self.path.name.lower().removesuffix(PACKED)).suffix == ".tsv"


def settle(path: str) -> str:
    """A path in its one spelling: as it was written, without `./` and doubled slashes."""
    return os.path.join(*Path(path).parts) if Path(path).parts else path


def find(path: str) -> list[File]:
    """The files, sorted by name."""
    place = os.path.expanduser(path)
    try:
        if os.path.isdir(place):
            names = sorted(name for name in os.listdir(place) if _table(name))
            if not names:
                raise BadInput(f"dataset: {path}: is a folder without tables; {', '.join(ENDINGS)} files are right")
            return _sites([Path(place, name) for name in names])
        if not os.path.lexists(place) and glob.has_magic(place):
            found = sorted(Path(name) for name in glob.glob(place))
            if not found:
                raise BadInput(f"dataset: no file matches {path!r}")
            return _sites(found)
        if not os.path.exists(place):
            raise BadInput(f"dataset: no file {path!r}{_beside(Path(place))}")
    except (OSError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"dataset: {path!r} cannot be looked at ({error})") from None
    return [File(Path(place), "")]


def _table(name: str) -> bool:
    return not name.startswith(".") and name.lower().removesuffix(PACKED).endswith(ENDINGS)


def _sites(paths: list[Path]) -> list[File]:
    found: dict[str, Path] = {}
    for path in paths:
        site = Path(path.name.removesuffix(PACKED)).stem
        if site in found:
            raise BadInput(f"dataset: {found[site]} and {path} are both of the site {site!r}; one file a site is right")
        found[site] = path
    return [File(path, site) for site, path in found.items()]


def _beside(place: Path) -> str:
    """What lies in the same folder under a similar name."""
    folder = place.parent
    names = [name for name in os.listdir(folder) if _table(name)] if folder.is_dir() else []
    return f"; {nearest(place.name, names)}" if names else f" in {Path(folder).absolute()}"
