"""What the shell may complete: names of data sets, algorithms and the like, and of studies. Nothing heavy is loaded."""

import ast
from collections.abc import Callable
from pathlib import Path

from baton import synonyms

ROOMS = {  # field of a setting -> the file and the dict that know its names
    "dataset": ("datasets/__init__.py", "DATASETS"),
    "partition": ("partitions/__init__.py", "PARTITIONS"),
    "model": ("models/__init__.py", "MODELS"),
    "algorithm": ("algorithms/__init__.py", "ALGORITHMS"),
    "schedule": ("schedules/__init__.py", "SCHEDULES"),
    "lr_schedule": ("rates/__init__.py", "RATES"),
    "failures": ("failures/rules.py", "FAILURES"),
    "on_failure": ("failures/rules.py", "POLICIES"),
    "dp": ("privacy/rules.py", "DP"),
}
TITLES = {"failures": "failures", "on_failure": "policies", "dp": "dp"}  # rooms whose names are no singulars
_HERE = Path(__file__).parents[1]


def names(field: str) -> list[str]:
    """The registered names of a field, read off the source: to import it would load torch, at every Tab."""
    file, table = ROOMS[field]
    for node in ast.parse((_HERE / file).read_text()).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == table:
            keys = node.value.keys if isinstance(node.value, ast.Dict) else []
            return [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return []


def studies() -> list[str]:
    """Shipped studies, and the study files of the working folder."""
    folders = (_HERE / "studies", _HERE.parents[1] / "studies")
    shipped = {path.stem for folder in folders for path in folder.glob("*.toml")}
    return [*sorted(shipped), *sorted(path.name for path in Path().glob("*.toml"))]


def of(field: str) -> Callable[[str], list[str]] | None:
    """A completer for a field of a setting; None where it has no names."""

    def begun(incomplete: str) -> list[str]:
        known = names(field)
        others = [other for other in synonyms.SYNONYMS.get(field, {}) if " " not in other]
        return _begun(known, incomplete) or _begun([*known, *others], incomplete, fold=synonyms.fold)

    return begun if field in ROOMS else None


def a_study(incomplete: str) -> list[str]:
    """A completer for studies."""
    return _begun(studies(), incomplete)


def a_thing(incomplete: str) -> list[str]:
    """A completer for what `baton list` lists."""
    return _begun([*(TITLES.get(field, f"{field}s") for field in ROOMS), "metrics", "studies", "runs"], incomplete)


def _begun(words: list[str], incomplete: str, fold: Callable[[str], str] = str) -> list[str]:
    return [word for word in words if fold(word).startswith(fold(incomplete))]
