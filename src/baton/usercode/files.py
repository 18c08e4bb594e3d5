"""The source of a module: its file and those that it imports from the same folder or package, as they were loaded."""

import ast
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from baton.usercode.blame import ours

SUFFIXES = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES, *BYTECODE_SUFFIXES)  # in the order that Python looks for them
INSTALLED = ("site-packages", "dist-packages", Path(sysconfig.get_path("stdlib")).name)  # folders of others' packages


class _Read(NamedTuple):
    """One file as it was when its module was loaded."""

    spec: object  # the module's: another one where it was loaded again; None where it is not loaded
    digest: str
    imports: tuple[str, ...]  # what may be modules, by their full names


class _Whole(NamedTuple):
    """A module with all that it imports from its own folder."""

    fingerprint: str
    loaded: tuple[tuple[str, object], ...]  # modules and their specs then


_READ: dict[str, _Read] = {}
_WHOLE: dict[str, _Whole] = {}


def fingerprint(module: str) -> str:
    """16 hex digits of a loaded module's source and of what it imports from its folder or package; "": it has no file.

    The same wherever the folder lies. A file is read when its module is first met, and again when it is loaded again:
    an edit that nobody has loaded changes nothing.
    """
    known = _WHOLE.get(module)
    if known is None or any(_spec(name) is not spec for name, spec in known.loaded):
        known = _WHOLE[module] = _whole(module)
    return known.fingerprint


def file_of(module: ModuleType | None) -> Path | None:
    """The file that a module was loaded from, where it is there."""
    name = getattr(module, "__file__", None)
    return Path(os.path.abspath(name)) if name and os.path.isfile(name) else None


def _spec(name: str) -> object:
    return getattr(sys.modules.get(name), "__spec__", None)


def _whole(module: str) -> _Whole:
    path = file_of(sys.modules.get(module))
    if path is None:
        return _Whole("", ((module, _spec(module)),))
    name, root = _placed(module, path)
    found, loaded = dict[str, str](), {module: _spec(module)}
    waiting = [(own, own, file) for own, file in _found(name, root, name) if file != path]  # the packages it is in
    waiting.append((module, name, path))
    while waiting:
        key, name, path = waiting.pop()
        relative = path.relative_to(root).as_posix()
        if relative in found:
            continue
        read = _read(key, name, path)
        found[relative], loaded[key] = read.digest, read.spec
        for target in read.imports:
            waiting += [(own, own, file) for own, file in _found(target, root, name)]
    text = "\n".join(f"{relative} {digest}" for relative, digest in sorted(found.items()))
    return _Whole(hashlib.sha256(text.encode()).hexdigest()[:16], tuple(loaded.items()))


def _placed(module: str, path: Path) -> tuple[str, Path]:
    """A module's name as others import it, and the folder that holds its top-level module or package.

    A script has its file's name, or the one that `python -m` was given.
    """
    parts = str(getattr(_spec(module), "name", module)).split(".")
    places = [*path.parent.parts, *([] if _package(path) else [path.name.partition(".")[0]])]
    if places[-len(parts) :] != parts:
        return path.name.partition(".")[0], path.parent
    return ".".join(parts), Path(*places[: -len(parts)])


def _package(path: Path) -> bool:
    return path.name.partition(".")[0] == "__init__"


def _read(key: str, name: str, path: Path) -> _Read:
    """A file's digest and imports; of a loaded module, those of when it was loaded."""
    known, spec = _READ.get(key), _spec(key)
    if known is not None and key in sys.modules and known.spec is spec:
        return known
    try:
        data = path.read_bytes()
    except OSError:
        data = b""
    source = path.suffix in SOURCE_SUFFIXES
    if source:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    imports = tuple(dict.fromkeys(_imports(data, name, _package(path)))) if source else ()
    _READ[key] = _Read(spec, hashlib.sha256(data).hexdigest(), imports)
    return _READ[key]


def _imports(source: bytes, name: str, package: bool) -> Iterator[str]:
    """The full names of all that a file imports, at its top or inside a function."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):  # whoever imports it is told
        return
    home = name.split(".") if package else name.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute("." * node.level + (node.module or ""), home)
            yield from (part for alias in node.names for part in (base, f"{base}.{alias.name}".strip(".")) if part)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called, given = node.func, node.args[0].value
            word = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if word in ("import_module", "__import__") and isinstance(given, str) and given.strip("."):
                yield _absolute(given, home)


def _absolute(name: str, home: list[str]) -> str:
    """`..x` inside the package a.b -> `a.x`."""
    level = len(name) - len(name.lstrip("."))
    base = home[: max(0, len(home) - level + 1)] if level else []
    return ".".join([*base, *filter(None, name.lstrip(".").split("."))])


def _found(target: str, root: Path, importer: str) -> Iterator[tuple[str, Path]]:
    """The files under the root that an import of this name loads: packages on the way to it, and its own."""
    parts = target.split(".")
    if not _inside(parts[0], root, importer.split(".")[0]):
        return
    for end in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:end])
        names = [base.with_name(base.name + suffix) for base in (place / "__init__", place) for suffix in SUFFIXES]
        path = next((path for path in names if path.is_file()), None)
        if path is not None:
            yield ".".join(parts[:end]), path


def _inside(top: str, root: Path, importer: str) -> bool:
    """Whether Python finds a top-level module or package in this folder; beside an installed one others are not its."""
    if top == importer:
        return True
    if ours(top) or root.name in INSTALLED:
        return False
    try:
        spec = find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return False
    places = [] if spec is None else [*(spec.submodule_search_locations or ()), *filter(None, [spec.origin])]
    folders = [os.path.dirname(place) for place in places if os.path.isabs(place)]  # others: built in
    return any(os.path.realpath(folder) == os.path.realpath(root) for folder in folders)
