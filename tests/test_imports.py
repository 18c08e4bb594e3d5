"""Imports go one way, along the flow of data, and the command line answers before torch is loaded."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import baton

ROOT = Path(baton.__file__).parent

LAYERS = [  # a room imports only from rooms above it
    ["baton", "errors", "shown"],
    ["notice"],
    ["limits", "private"],
    ["fields", "nolinks", "regular", "usercode", "rng", "lanes", "paper", "caches", "synonyms", "verdict"],
    ["names", "seam", "theory", "index"],
    ["datasets", "partitions", "schedules", "rates", "failures", "algorithms", "nn"],
    ["models", "ledger", "metrics", "privacy"],
    ["setting"],
    ["clients", "store"],
    ["study"],
    ["legs", "search"],
    ["simulate", "sites"],
    ["constants", "sweep"],
    ["crew"],
    ["measure", "advice", "deploy"],
    ["report", "export"],
    ["comparison"],
    ["watch", "trained"],
    ["api"],
    ["cli"],
    ["__main__"],
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


def modules() -> dict[str, Path]:
    """baton.rng -> its file; a package is its __init__."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(["baton", *(p for p in parts if p != "__init__")])] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of baton that a file imports, at its top or inside a function."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where things come from"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                names.add(whole if whole in known else str(node.module))
    return {name for name in names if name.split(".")[0] == "baton"}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else module


MODULES = modules()


def test_every_module_has_its_layer() -> None:
    assert {room(module) for module in MODULES} == set(LEVEL)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_one_way(module: str) -> None:
    own = LEVEL[room(module)]
    for name in imported(MODULES[module], MODULES):
        assert name in MODULES, f"{module} imports {name}, which is not there"
        assert room(name) == room(module) or LEVEL[room(name)] < own, f"{module} imports {name}, a later layer"


def test_there_are_no_cycles_inside_rooms_either() -> None:
    """A package's __init__ gathers its modules; they do not import it."""
    graph = {name: imported(path, MODULES) - {name} for name, path in MODULES.items()}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert set(order) == set(MODULES)


def test_the_layers_would_notice_a_wrong_import(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(
        "import torch\nfrom baton.simulate import engine\n\ndef late():\n    from baton.store import Store\n"
    )
    assert imported(bad, MODULES) == {"baton.simulate.engine", "baton.store"}
    assert LEVEL["simulate"] > LEVEL["store"] > LEVEL["rng"]


def reached(start: str) -> set[str]:
    """The rooms that a room's modules import, and those that these import, and so on."""
    found, left = set[str](), [module for module in MODULES if room(module) == start]
    while left:
        new = imported(MODULES[left.pop()], MODULES) - found
        found |= new
        left += new
    return {room(module) for module in found}


def test_what_reads_a_store_loads_nothing_that_trains() -> None:
    assert not reached("store") & {"simulate", "legs", "ledger", "clients", "sweep"}
    assert "simulate" in reached("sweep")


@pytest.mark.parametrize(
    ("those", "other"),
    [("baton.nn.native", "datasets"), ("baton.nn.cuda", "datasets"), ("baton.legs", "algorithms")],
)
def test_what_computes_knows_neither_data_sets_nor_algorithms(those: str, other: str) -> None:
    for module, path in MODULES.items():
        if f"{module}.".startswith(f"{those}."):
            assert other not in {room(name) for name in imported(path, MODULES)}, module


HEAVY = ("torch", "numpy", "matplotlib", "sklearn", "pydantic")


@pytest.mark.parametrize("module", ["baton", "baton.cli", "baton.__main__"])
def test_the_command_line_starts_without_torch(module: str) -> None:
    code = f"import sys, {module}; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "torch" not in done.stdout, done.stdout
    assert "matplotlib" not in done.stdout, done.stdout


def test_the_report_trains_nothing() -> None:
    """It reads the store only; nothing in it reaches the engine by name."""
    for module, path in MODULES.items():
        if room(module) == "report":
            rooms = {room(name) for name in imported(path, MODULES)}
            assert not rooms & {"simulate", "sweep", "legs", "clients"}, module
