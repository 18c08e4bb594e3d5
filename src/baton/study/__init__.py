"""A TOML study: a base, axes to cross, cases, named groups, how to search, and what to report."""

import tomllib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from baton import regular
from baton.errors import BadInput, nearest
from baton.setting import Setting
from baton.study import fields, measured
from baton.study.parse import flat, is_table, merged, points
from baton.study.scale import Scaled, scaled
from baton.study.tables import Report, Tune

__all__ = ["Report", "Study", "Tune", "find", "parse", "read", "says", "shipped"]

KEYS = ("like", "title", "about", "names", "base", "axes", "cases", "groups", "tune", "report")
TABLES = ("names", "base", "axes", "groups", "tune", "report")


LARGEST = 1 << 20  # bytes of a file; the shipped ones have a few thousand
DOTS = 2000  # in a line: tomllib's time grows by the square of a dotted key's parts
LONGEST = 1000  # characters of what is said about one
CHAIN = 100  # studies each of which is like the next


class Study(NamedTuple):
    """Named groups of settings."""

    name: str
    title: str
    about: str
    groups: dict[str, list[Setting]]
    report: Report
    tune: Tune | None = None  # None: nothing is searched, every run is wanted
    labels: dict[tuple[str, Any], str] = {}  # noqa: RUF012 (field, value) -> its name in [names]
    shrunk: Scaled | None = None  # what --scale made of it

    @property
    def settings(self) -> list[Setting]:
        """Every run once, in the study's order."""
        return list({s.key: s for group in self.groups.values() for s in group}.values())

    @property
    def search_seed(self) -> int:
        """What is searched is searched with this seed: the study's first where [tune] names none."""
        return self.tune.seed if self.tune and self.tune.seed >= 0 else self.settings[0].seed

    @property
    def swept(self) -> list[str]:
        """The fields whose best value is chosen for each line: one, or all that are searched together."""
        return self.tune.over if self.tune else [field for field in [self.report.over] if field]

    @property
    def options(self) -> list[str]:
        """The options of specs that [tune] or [report] treat as fields: `algorithm.mu`."""
        report = self.report
        return list(_options((*self.swept, report.lines, report.figures, *report.down, *report.across)))

    def at(self, setting: Setting, field: str) -> Any:
        """The value of a field, of a spec without the options that are fields here; '' where no field is named."""
        return fields.value(setting, field, self.options) if field else ""

    def values(self, field: str, settings: Sequence[Setting] | None = None) -> list[Any]:
        """Every value of a field once, in the study's order."""
        return list(dict.fromkeys(self.at(s, field) for s in (self.settings if settings is None else settings)))


@lru_cache(maxsize=64)  # asked for every value of every run
def _options(used: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in used if fields.parted(name)[1]))


def find(name: str, first: Path = Path(), but: tuple[Path, ...] = ()) -> Path:
    """A study file in the first folder, or the shipped study of that name; none of those in `but`."""
    here = Path(__file__).parents[1]
    for folder in (first, here / "studies", here.parents[1] / "studies"):
        for path in (folder / name, folder / f"{name}.toml"):
            if path.exists() and not path.is_dir() and path.resolve() not in but:
                return path
    what = f"like: no other study {name!r}" if but else f"study: no file {name!r}"
    raise BadInput(f"{what}; give the path of a TOML file or a shipped name: {', '.join(shipped())}")


def shipped() -> list[str]:
    """Names of the studies that come with Baton."""
    here = Path(__file__).parents[1]
    return sorted({path.stem for folder in (here, here.parents[1]) for path in (folder / "studies").glob("*.toml")})


def says(name: str) -> str:
    """What a study is about, in a sentence: its title, and the first sentence of what it says of itself."""
    table = _table(find(name), ())
    first = str(table.get("about", "")).partition(". ")[0].rstrip(".")
    return ". ".join(filter(None, (str(table.get("title", name)), first))) + "."


def read(name: str | Path, scale: float = 1.0, method: str = "") -> Study:
    """A study from its TOML file, with fewer rounds and seeds where scale is below 1, searched by another method."""
    path = find(str(name))
    try:
        study = parse(path.stem, _table(path, ()))
        if method and study.tune is not None:
            study = study._replace(tune=study.tune.model_copy(update={"method": method}))
        return _shrink(study, scale) if scale != 1 else study
    except BadInput as error:
        line = str(error)
        raise BadInput(f"{path}: {line if len(line) <= LONGEST else f'{line[:LONGEST]}…'}") from None
    except RecursionError:
        raise BadInput(f"{path}: not a study: nested too deep") from None


def parse(name: str, table: dict[str, Any]) -> Study:
    """A study from the tables of its TOML file."""
    for key in table:
        if key not in KEYS:
            raise BadInput(f"study: no key {key!r}; {nearest(key, KEYS)}")
    for key in ("title", "about"):
        if not isinstance(table.get(key, ""), str):
            raise BadInput(f"{key}: {table[key]!r} is not right: a text in quotes is")
    for key in TABLES:
        is_table(table.get(key, {}), key)
    tune = Tune(**table["tune"]) if "tune" in table else None
    report = Report(**table.get("report", {}))
    study = Study(name, table.get("title", name), table.get("about", ""), {}, report, tune)
    found = points(flat(table), study.options)
    study = study._replace(groups=found.groups, labels=found.labels)
    for key in ("over", "lines", "figures", "down", "across"):
        fields.check(f"[report] {key}", getattr(report, key), study.settings)
    measured.check(report, study.settings)
    study = study._replace(report=measured.with_best(report, study.settings, "best" in table.get("report", {})))
    fields.check("[tune] over", tune.over if tune else [], study.settings)
    return study


def _table(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    """The tables of a file, over those of the study it is like: one beside it, or a shipped one; never itself."""
    table = flat(_toml(path))
    like = table.pop("like", None)
    if like is None:
        return table
    if not isinstance(like, str):
        raise BadInput(f"like: {like!r} is not the name of a study")
    own = (*above, path.resolve())
    if len(own) > CHAIN:
        raise BadInput(f"like: more than {CHAIN} studies are like one another in a row")
    return merged(_table(find(like, path.parent, own), own), table)


def _toml(path: Path) -> dict[str, Any]:
    try:
        text = regular.read(path, LARGEST).decode()
        if any(line.count(".") > DOTS for line in text.split("\n")):
            raise BadInput(f"not a study: it has a line with more than {DOTS:,} dots; break it")
        return tomllib.loads(text)
    except OSError as error:
        raise BadInput(f"cannot be read ({error.strerror or error})") from None
    except BadInput:
        raise
    except ValueError as error:  # not UTF-8, not TOML, a number of too many digits
        raise BadInput(f"not a TOML file: {error}") from None


def _shrink(study: Study, scale: float) -> Study:
    if not 0 < scale < 1:
        raise BadInput(f"scale: {scale:g}; a number above 0, up to 1, is right")
    groups, tune, report, said = scaled(study.groups, study.tune, study.report, scale)
    title = f"{study.title} (scale {scale:g})"
    return study._replace(title=title, groups=groups, tune=tune, report=report, shrunk=said)
