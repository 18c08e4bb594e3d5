"""A user's code is told from other code of the same name: by its source as loaded, or by what a function refers to."""

import importlib
import linecache
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import baton
from baton.errors import BadInput
from baton.names import path
from baton.usercode import fingerprints, imported
from baton.usercode.files import _absolute

Taken = Callable[..., str]


def forget(folder: Path) -> None:
    """As if nothing in the folder had been imported."""
    for name, module in list(sys.modules.items()):
        own = vars(module) if module else {}
        if f"{folder}{os.sep}" in f"{own.get('__file__')} {own.get('__path__')}":
            del sys.modules[name]
    importlib.invalidate_caches()


def write(folder: Path, **texts: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)


@pytest.fixture
def taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Taken]:
    """The fingerprint of a module in a folder, as a new process would take it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it is keyed by seconds: a test is faster
    before = list(sys.path)

    def take(name: str = "mine:make", folder: Path = tmp_path, beside: Path = tmp_path) -> str:
        forget(tmp_path)
        sys.path[:] = [*before, str(folder), str(beside)]
        importlib.invalidate_caches()
        (found,) = fingerprints([name]).values()
        return found

    yield take
    sys.path[:] = before
    forget(tmp_path)


MINE = "import torch, json\nfrom helper import step\n\ndef make():\n    return step()\n"


def test_one_line_makes_another_code_and_other_files_do_not(tmp_path: Path, taken: Taken) -> None:
    write(tmp_path, mine=MINE, helper="def step():\n    return 1\n", unrelated="x = 1\n")
    first = taken()
    assert len(first) == 16
    assert taken() == first
    write(tmp_path, unrelated="x = 2\n", json="raise SystemExit\n")  # `import json` finds Python's own
    (tmp_path / "mine.txt").write_text("notes")
    assert taken() == first
    write(tmp_path, helper="def step():\n    return 2\n")
    second = taken()
    write(tmp_path, mine=MINE + "# more\n")
    assert len({first, second, taken()}) == 3
    write(tmp_path, mine=MINE, helper="def step():\n    return 1\n")
    assert taken() == first


@pytest.mark.parametrize(
    "line",
    [
        "import helper",
        "import helper as h, torch",
        "from helper import *",
        "def late():\n    import helper",
        "class A:\n    def b(self):\n        from helper import step",
        "try:\n    import helper\nexcept ImportError:\n    pass",
        "import importlib\nimportlib.import_module('helper')",
        "__import__('helper')",
        "import between",
    ],
)
def test_what_is_imported_from_the_folder_counts_however_it_is_imported(
    tmp_path: Path, taken: Taken, line: str
) -> None:
    write(tmp_path, mine=f"{line}\ndef make():\n    pass\n", helper="step = 1\n", between="import helper, mine\n")
    first = taken()
    write(tmp_path, helper="step = 2\n")
    assert taken() != first


def test_a_package_with_relative_imports(tmp_path: Path, taken: Taken) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/part/__init__.py": "from . import near\n",
        "pkg/part/mine.py": "from ..far import x\nfrom .. import top\ndef make():\n    from .late import y\n",
        "pkg/part/near.py": "n = 1\n",
        "pkg/part/late.py": "y = 1\n",
        "pkg/far.py": "import beside\nx = 1\n",
        "pkg/top.py": "t = 1\n",
        "beside.py": "b = 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "pkg" / "alone.py").write_text("a = 1\n")
    first = taken("pkg.part.mine:make")
    (tmp_path / "pkg" / "alone.py").write_text("a = 2\n")
    assert taken("pkg.part.mine:make") == first
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}# changed\n")
        assert taken("pkg.part.mine:make") != first, name
        (tmp_path / name).write_text(text)
    (tmp_path / "pkg" / "__init__.py").unlink()  # a namespace package
    second = taken("pkg.part.mine:make")
    assert second != first
    (tmp_path / "pkg" / "far.py").write_text("x = 2\n")
    assert taken("pkg.part.mine:make") != second


def test_the_folder_may_move_and_line_ends_may_change(tmp_path: Path, taken: Taken) -> None:
    write(tmp_path / "one", mine=MINE, helper="def step():\n    return 1\n")
    shutil.copytree(tmp_path / "one", tmp_path / "deep" / "er" / "two")
    first = taken(folder=tmp_path / "one")
    assert taken(folder=tmp_path / "deep" / "er" / "two") == first
    for end in ("\r\n", "\r"):
        (tmp_path / "one" / "mine.py").write_bytes(MINE.replace("\n", end).encode())
        assert taken(folder=tmp_path / "one") == first


def test_what_is_outside_the_folder_or_cannot_be_parsed(tmp_path: Path, taken: Taken) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    write(other, far="x = 1\n")
    write(own, mine="import far\ndef make():\n    import broken, no_such_module\n", broken="def (\n")
    first = taken(folder=own, beside=other)
    write(other, far="x = 2\n")
    assert taken(folder=own, beside=other) == first
    write(own, broken="def )\n")
    assert taken(folder=own, beside=other) != first


def test_a_compiled_module_counts_by_its_bytes(tmp_path: Path, taken: Taken) -> None:
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    write(tmp_path, mine="def make():\n    import fast\n")
    before = taken()
    (tmp_path / f"fast{suffix}").write_bytes(b"1\r\n")
    first = taken()
    (tmp_path / f"fast{suffix}").write_bytes(b"1\n")
    assert len({before, first, taken()}) == 3


def test_it_is_the_source_that_was_loaded(tmp_path: Path, taken: Taken) -> None:
    write(tmp_path, mine=MINE + "def late():\n    import lazy\n", helper="def step():\n    return 1\n", lazy="x = 1\n")
    first = taken()
    write(tmp_path, mine=MINE, helper="def step():\n    return 2\n")
    assert fingerprints(["mine:make"]) == {"mine": first}  # nobody has loaded the new text
    importlib.import_module("lazy")  # what is loaded only now is as it is now; the others stay as they were loaded
    assert fingerprints(["mine:make"]) == {"mine": first}
    importlib.reload(sys.modules["helper"])
    second = fingerprints(["mine:make"])["mine"]
    importlib.reload(sys.modules["mine"])
    third = fingerprints(["mine:make"])["mine"]
    assert len({first, second, third}) == 3
    assert taken() == third


def test_batons_own_modules_have_none() -> None:
    assert fingerprints(["baton.models.mlp:mlp", "baton.models:mlp"]) == {}


def test_an_installed_module_has_its_own_package_only() -> None:
    assert set(fingerprints(["annotated_types:Gt", "json:loads"])) == {"annotated_types", "json"}
    from baton.usercode import files

    assert {name.partition(".")[0] for name, _ in files._WHOLE["annotated_types"].loaded} == {"annotated_types"}
    assert {name.partition(".")[0] for name, _ in files._WHOLE["json"].loaded} == {"json"}


# --- functions without a file

CELLS = count()
CELL = """
    SCALE = 2.0
    WORDS = {"b", "a", "c"}
    OTHER = 1

    def unused():
        return 1

    class Net:
        width = 3

        def size(self):
            return inner(self.width)

        @property
        def twice(self):
            return 2

    def inner(x):
        return x * SCALE

    def make(*, k=1):
        def nested(w):
            return w in WORDS
        return Net().size() + k
"""
CHANGES = {  # a line of the cell, what takes its place, whether that makes another code
    "SCALE = 2.0": ("SCALE = 3.0", True),
    'WORDS = {"b", "a", "c"}': ('WORDS = {"b", "a"}', True),
    "OTHER = 1": ("OTHER = 2", False),
    "        return 1": ("        return 2", False),
    "        width = 3": ("        width = 4", True),
    "            return 2": ("            return 3", True),
    "        return x * SCALE": ("        return x / SCALE", True),
    "def make(*, k=1)": ("def make(*, k=2)", True),
    "w in WORDS": ("w not in WORDS", True),
    "self.width)": ("self.width + 1)", True),
}


def cell(text: str, kept: bool, module: str = "notebook") -> ModuleType:
    """A module as a notebook makes it: no file; the text of the cell is kept for tracebacks, or not."""
    made = ModuleType(module)
    sys.modules[module] = made
    name, source = f"<cell {next(CELLS)}>" if kept else "<string>", dedent(text)
    if kept:
        linecache.cache[name] = len(source), None, source.splitlines(True), name
    exec(compile(source, name, "exec"), vars(made))
    return made


@pytest.fixture
def _no_notebook() -> Iterator[None]:
    yield
    sys.modules.pop("notebook", None)


@pytest.mark.usefixtures("_no_notebook")
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("line", CHANGES)
def test_a_function_of_a_notebook_counts_with_all_that_it_refers_to(line: str, kept: bool) -> None:
    cell(CELL, kept)
    first = fingerprints(["notebook:make"])
    cell(CELL, kept)
    assert fingerprints(["notebook:make"]) == first
    assert CELL.count(line) == 1
    new, other = CHANGES[line]
    cell(CELL.replace(line, new), kept)
    assert (fingerprints(["notebook:make"]) != first) is other


@pytest.mark.usefixtures("_no_notebook")
def test_a_name_that_stands_for_something_else_now() -> None:
    made = cell(CELL, kept=True)
    first = fingerprints(["notebook:make"])
    made.SCALE = 5.0  # type: ignore[attr-defined]
    second = fingerprints(["notebook:make"])
    made.SCALE = 2.0  # type: ignore[attr-defined]
    assert fingerprints(["notebook:make"]) == first != second
    assert fingerprints(["notebook:make", "notebook:unused"]) != first


@pytest.mark.usefixtures("_no_notebook")
@pytest.mark.parametrize("kept", [True, False])
def test_partials_classes_callables_closures_and_arrays(kept: bool) -> None:
    text = """
        import functools, numpy as np
        from dataclasses import dataclass

        def base(a, *, k=1):
            return a + k
        made = functools.partial(base, 1, k=2)

        @dataclass
        class Maker:
            x: int = 1
            def __call__(self):
                return self.x + TABLE[0]
        TABLE = np.arange(3)
        called = Maker(4)

        def outer(by):
            def closed():
                return by
            return functools.wraps(closed)(lambda: closed())
        closed = outer(7)
        method = called.__call__
        looped = [1]; looped.append(looped)
        def loop(): return looped, loop
    """
    names = [f"notebook:{name}" for name in ("made", "Maker", "called", "closed", "method", "loop")]

    def each(source: str) -> list[str]:
        cell(source, kept)
        return [fingerprints([name])["notebook"] for name in names]

    first = each(text)
    assert each(text) == first
    assert len(set(first)) == len(names)

    def other(old: str, new: str) -> list[str]:
        changed = each(text.replace(old, new))
        return [name.partition(":")[2] for name, a, b in zip(names, first, changed, strict=True) if a != b]

    assert other("k=2)", "k=3)") == ["made"]
    assert other("a + k", "a - k") == ["made"]
    assert other("Maker(4)", "Maker(5)") == ["called", "method"]
    assert other("self.x +", "self.x -") == ["Maker", "called", "method"]
    assert other("arange(3)", "arange(4)") == ["Maker", "called", "method"]
    assert other("outer(7)", "outer(8)") == ["closed"]
    assert other("looped = [1]", "looped = [2]") == ["loop"]


@pytest.mark.usefixtures("_no_notebook")
def test_a_notebook_that_imports_a_file_of_the_users(tmp_path: Path, taken: Taken) -> None:
    write(tmp_path, helper="def step():\n    return 1\n")
    text = "import helper, torch\nfrom helper import step\ndef a(): return helper.step()\ndef b(): return step()\n"

    def both() -> list[str]:
        forget(tmp_path)
        cell(text, kept=True)
        return [fingerprints([f"notebook:{name}"])["notebook"] for name in "ab"]

    taken("helper:step")
    first = both()
    assert both() == first
    write(tmp_path, helper="def step():\n    return 2\n")
    assert all(a != b for a, b in zip(first, both(), strict=True))


SCRIPT = """
import sys
from baton.usercode import fingerprints
K = {k}
def make():
    return K
print(*fingerprints(["__main__:make"]).values())
"""


def python(*words: str | Path, cwd: Path, code: int = 0, **env: str) -> str:
    source = str(Path(baton.__file__).parents[1])
    given = {**os.environ, "PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1", **env}
    done = subprocess.run([sys.executable, *map(str, words)], cwd=cwd, env=given, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout.strip()


def test_a_script_and_a_command_line(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    found = {}
    for k in (1, 2):
        text = SCRIPT.format(k=k)
        for place in ("run.py", "sub/run.py"):
            (tmp_path / place).write_text(text)
        script = {python("run.py", cwd=tmp_path), python("sub/run.py", cwd=tmp_path), python("-m", "run", cwd=tmp_path)}
        commands = {python("-c", text, cwd=tmp_path), python("-c", f"\n\n{text}", cwd=tmp_path / "sub")}
        assert len(script) == len(commands) == 1
        found[k] = script | commands
    assert len(found[1] | found[2]) == 4


# --- where names are looked for


def test_the_working_folder_comes_last_and_only_for_what_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    write(tmp_path, mine_here="def make():\n    return 1\n", colorsys="def make():\n    return 1\n")
    with pytest.raises(BadInput, match=r"^model: colorsys has no 'make' \(it is .*colorsys.py, not the file here; "):
        imported("model", "colorsys:make", ())
    for _ in range(3):
        assert imported("model", "mine_here:make", ())() == 1
    assert sys.path[-1] == str(tmp_path)
    assert sys.path.count(str(tmp_path)) == 1
    del sys.modules["mine_here"]


def test_without_a_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(os, "getcwd", gone)
    with pytest.raises(BadInput, match="cannot be imported"):
        imported("model", "no_such_module_anywhere:make", ())


def test_a_module_in_the_working_folder_takes_nobodys_place(tmp_path: Path) -> None:
    for name in ("torch", "json", "typing", "pydantic", "numpy", "mine"):
        (tmp_path / f"{name}.py").write_text(f"open('ran_{name}', 'w')\ndef make(shape, classes): pass\n")
    console = Path(sys.executable).parent / "baton"
    for words in (("-m", "baton"), (console,)):
        python(*words, "list", "runs", cwd=tmp_path)
        python(*words, "run", "-m", "mine:make", "-R", "1", cwd=tmp_path, code=2)  # typed: so it is imported
        assert [p.name for p in tmp_path.glob("ran_*")] == ["ran_mine"]
        (tmp_path / "ran_mine").unlink()


def test_what_was_put_on_the_path_on_purpose_stays(tmp_path: Path) -> None:
    seen = "import atexit, os, sys\natexit.register(lambda: print(sys.path.count(os.getcwd())))\n"
    (tmp_path / "sitecustomize.py").write_text(seen)
    both = os.pathsep.join([str(tmp_path), str(Path(baton.__file__).parents[1])])
    for words in (("-m",), ("-P", "-m")):
        assert python(*words, "baton", "--version", cwd=tmp_path, PYTHONPATH=both).splitlines()[-1] == "1"


@given(st.text(max_size=12), st.text(max_size=12))
def test_a_path_is_a_module_and_a_factory(head: str, tail: str) -> None:
    spec = f"{head}:{tail}"
    found = path(spec, ("digits", "exdir"))
    assert found == "" or spec.startswith(found)
    assert path(f"digits:{tail}", ("digits",)) == ""
    assert "=" not in found.partition(":")[2]  # an option


@pytest.mark.parametrize(
    ("name", "home", "full"),
    [("a.b", "x.y", "a.b"), (".a", "x.y", "x.y.a"), ("..a", "x.y", "x.a"), ("..", "x.y", "x"), (".", "x", "x")],
)
def test_relative_names(name: str, home: str, full: str) -> None:
    assert _absolute(name, home.split(".")) == full
