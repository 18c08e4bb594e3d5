"""Functions that lie in no file, as in a notebook: told by their text or bytecode, and by what they refer to."""

import dis
import inspect
import sys
from collections.abc import Iterator
from functools import lru_cache, partial
from textwrap import dedent
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from baton.usercode import files
from baton.usercode.blame import NOT_THEIRS

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), range)
NOISE = ("__module__", "__dict__", "__weakref__", "__doc__", "__firstlineno__", "__static_attributes__", "__slots__")


Seen = dict[int, tuple[int, Any]]  # by identity: the values told already, which therefore stay, and their numbers


def parts(value: Any, seen: Seen) -> Iterator[str]:
    """What tells a value, and all that it refers to by name, from another."""
    if isinstance(value, PLAIN):
        yield repr(value)
        return
    if id(value) in seen:
        yield f"seen {seen[id(value)][0]}"
        return
    seen[id(value)] = len(seen), value
    if isinstance(value, tuple | list | set | frozenset | dict):
        yield from _gathered(value, seen)
    elif isinstance(value, partial):
        yield from _each("partial", (value.func, value.args, value.keywords), seen)
    elif isinstance(value, MethodType):
        yield from _each("method", (value.__func__, value.__self__), seen)
    elif isinstance(value, staticmethod | classmethod):
        yield from _each(type(value).__name__, (value.__func__,), seen)
    elif isinstance(value, property):
        yield from _each("property", (value.fget, value.fset, value.fdel), seen)
    elif isinstance(value, ModuleType):
        yield _named(value.__name__)
    elif isinstance(value, BuiltinFunctionType):
        yield f"{value.__module__} {value.__qualname__}"
    elif isinstance(value, FunctionType | type) and not _loose(value):
        yield f"{_named(str(value.__module__))} {value.__qualname__}"
    elif isinstance(value, FunctionType):
        yield from inside(value, seen)
    elif isinstance(value, type):
        own = {key: x for key, x in sorted(vars(value).items()) if key not in NOISE}
        yield from _each(f"class {value.__qualname__}", (value.__bases__, own), seen)
    elif hasattr(value, "tolist") and hasattr(value, "dtype"):  # an array or a tensor
        yield f"{value.dtype} {value.tolist()!r}"
    else:
        yield from _each("object", (type(value), getattr(value, "__dict__", {}) if _loose(type(value)) else {}), seen)


def _gathered(value: Any, seen: Seen) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _each(f"dict {len(value)}", (x for pair in value.items() for x in pair), seen)
    elif isinstance(value, set | frozenset):  # in no order
        yield from (type(value).__name__, *sorted(" ".join(parts(x, dict(seen))) for x in value))
    else:
        yield from _each(f"{type(value).__name__} {len(value)}", value, seen)


def _each(word: str, values: Any, seen: Seen) -> Iterator[str]:
    yield word
    for value in values:
        yield from parts(value, seen)


def _loose(value: Any) -> bool:
    """Whether a function or class lies in no file."""
    return in_no_file(str(value.__module__))


def in_no_file(module: str) -> bool:
    """Return whether a module lies in no file, as a notebook's."""
    return module not in sys.builtin_module_names and files.file_of(sys.modules.get(module)) is None


def _named(module: str) -> str:
    """A module by its name, and by its source where it is a user's own file."""
    path = files.file_of(sys.modules.get(module))
    return module if path is None or str(path).startswith(NOT_THEIRS) else f"{module} {files.fingerprint(module)}"


def inside(function: FunctionType, seen: Seen) -> Iterator[str]:
    """Its text, the defaults of its options, and what the names in it that are not its own stand for."""
    code = function.__code__
    yield _text(code, code.co_filename) or "\n".join(_bytecode(code))
    yield from _each("defaults", (function.__defaults__, function.__kwdefaults__), seen)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield name
        try:
            yield from parts(cell.cell_contents, seen)
        except ValueError:  # nothing in it yet
            yield "empty"
    for name in code_names(code):
        if name in function.__globals__:
            yield from _each(name, (function.__globals__[name],), seen)


@lru_cache(maxsize=4096)
def _text(code: CodeType, file: str) -> str:  # noqa: ARG001 (code of equal instructions may stand in two cells)
    """The source of a function; "" where there is none."""
    try:
        return dedent(inspect.getsource(code))
    except (OSError, TypeError, IndexError, SyntaxError):
        return ""


@lru_cache(maxsize=4096)
def code_names(code: CodeType) -> tuple[str, ...]:
    """The global names that a function refers to, also inside functions of its own."""
    own = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    inner = {name for const in code.co_consts if isinstance(const, CodeType) for name in code_names(const)}
    return tuple(sorted(own | inner))


def _bytecode(code: CodeType) -> Iterator[str]:
    """What a function does, where its text is not to be had; another Python may write it otherwise."""
    yield f"{code.co_name} {code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount} {code.co_flags}"
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars}"
    for const in code.co_consts:
        yield from _bytecode(const) if isinstance(const, CodeType) else parts(const, {})
