"""The values that functions of a user's files refer to: globals, closures, defaults, attributes of classes.

A file's text says how a function computes, and not by which values: a script may change a global between two runs.
"""

import hashlib
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from baton.errors import BadInput
from baton.usercode import files
from baton.usercode.blame import NOT_THEIRS, written_in
from baton.usercode.objects import PLAIN, Seen, code_names, in_no_file

GENERATORS = ("Generator", "RandomState", "MT19937", "PCG64", "Philox", "SFC64")  # of numpy and torch, by class


def references(functions: Iterable[Callable[..., Any]]) -> Iterator[str]:
    """Yield what tells these functions, all of a user's files, from the same text with other values."""
    seen: Seen = {}
    for function in functions:
        yield from _of(function, seen, "", written_in(function))


def _of(value: Any, seen: Seen, name: str, where: str) -> Iterator[str]:
    """name: how the value is referred to; where: the function that does, for the line that refuses it."""
    if isinstance(value, PLAIN):
        yield repr(value)
        return
    if id(value) in seen:
        yield f"seen {seen[id(value)][0]}"
        return
    seen[id(value)] = len(seen), value
    if isinstance(value, FunctionType):
        if _theirs(value.__module__):
            yield from _of_function(value, seen)
    elif isinstance(value, type):
        if _theirs(value.__module__):
            yield from _each([*value.__bases__, *_attributes_of(value)], seen, f"{name}.{value.__name__}", where)
    elif isinstance(value, ModuleType):
        yield value.__name__
    elif isinstance(value, dict):
        yield f"dict {len(value)}"
        pairs = list(value.items())  # a cache may fill while it is looked at
        yield from _each([x for pair in pairs for x in pair], seen, name, where)
    elif isinstance(value, tuple | list):
        yield f"{type(value).__name__} {len(value)}"
        yield from _each(value, seen, name, where)
    elif isinstance(value, set | frozenset):  # in no order
        yield from (type(value).__name__, *sorted(" ".join(_of(x, dict(seen), name, where)) for x in value))
    elif hasattr(value, "__wrapped__") and callable(value):  # a cache, or what a decorator made
        yield from _of(value.__wrapped__, seen, name, where)
    elif isinstance(value, MethodType | staticmethod | classmethod):
        yield from _each((value.__func__, getattr(value, "__self__", None)), seen, name, where)
    elif isinstance(value, property):
        yield from _each((value.fget, value.fset, value.fdel), seen, name, where)
    elif isinstance(value, cached_property):
        yield from _of(value.func, seen, name, where)
    elif isinstance(value, partial):
        yield from _each((value.func, value.args, value.keywords), seen, name, where)
    elif hasattr(value, "tolist") and hasattr(value, "dtype"):  # an array or a tensor
        yield _of_array(value)
    else:
        yield from _of_object(value, seen, name, where)


def _each(values: Iterable[Any], seen: Seen, name: str, where: str) -> Iterator[str]:
    for value in values:
        yield from _of(value, seen, name, where)


def _of_function(function: FunctionType, seen: Seen) -> Iterator[str]:
    """Yield its defaults, its closure, and the globals that its code names, also through modules of the user's."""
    where = written_in(function)
    yield from _each((function.__defaults__, function.__kwdefaults__), seen, "a default", where)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # nothing in it yet
            continue
        yield name
        yield from _of(value, seen, name, where)
    for name in code_names(function.__code__):
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        yield name
        yield from _of(value, seen, name, where)
        if isinstance(value, ModuleType) and _theirs(value.__name__):
            for attribute in _attributes(function.__code__):
                if attribute in vars(value):
                    yield f"{name}.{attribute}"
                    yield from _of(vars(value)[attribute], seen, f"{name}.{attribute}", where)


def _of_object(value: Any, seen: Seen, name: str, where: str) -> Iterator[str]:
    """Yield what pickle would keep of an object; refuse one whose value cannot be told, or moves by itself."""
    kind = type(value)
    yield f"{kind.__module__} {kind.__qualname__}"
    foreign = kind.__module__.startswith(("numpy.", "torch."))
    if isinstance(value, random.Random) or (foreign and kind.__name__ in GENERATORS):
        raise _refusal(value, name, where)
    yield from _of(kind, seen, name, where)
    try:
        kept = value.__reduce_ex__(2)
    except Exception:  # a lock, a file, a generator: each says so in its own way
        raise _refusal(value, name, where) from None
    if isinstance(kept, str):
        yield kept
    else:
        yield from _each([list(x) if isinstance(x, Iterator) else x for x in kept], seen, name, where)


def _refusal(value: Any, name: str, where: str) -> BadInput:
    what = f"{where}: it refers to {name}, a {type(value).__name__}, which no run id can tell"
    return BadInput(
        f"{what}; expected numbers, words, arrays and what is made of them, or to be made inside the function"
    )


def _theirs(module: str | None) -> bool:
    """Return whether a module is one of the user's own files, or a notebook."""
    path = files.file_of(sys.modules.get(str(module)))
    return in_no_file(str(module)) if path is None else not str(path).startswith(NOT_THEIRS)


def _attributes_of(kind: type) -> list[Any]:
    """Return the methods and values of a class, but for what Python itself keeps there."""
    own = [x for key, x in sorted(vars(kind).items()) if isinstance(x, FunctionType) or not key.startswith("__")]
    return [x for x in own if type(x).__name__ not in ("member_descriptor", "getset_descriptor", "_abc_data")]


def _of_array(value: Any) -> str:
    """Return the type, shape and a hash of the numbers of an array or a tensor."""
    plain = value.detach().cpu() if hasattr(value, "detach") else value
    try:
        data = np.ascontiguousarray(plain)
        digest = hashlib.sha256(data.tobytes()).hexdigest() if data.dtype != object else repr(data.tolist())
    except (TypeError, ValueError, RuntimeError):  # of a type that NumPy has not
        digest = repr(plain.tolist())
    return f"{value.dtype} {tuple(getattr(value, 'shape', ()))} {digest}"


def _attributes(code: CodeType) -> list[str]:
    """Return the names that a function, and those inside it, look up anywhere."""
    inner = [name for const in code.co_consts if isinstance(const, CodeType) for name in _attributes(const)]
    return sorted({*code.co_names, *inner})
