"""A user's own code, named by `package.module:factory`: found, called, and what goes wrong in it told in one line."""

import importlib
import inspect
import sysconfig
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from baton.errors import BadInput, nearest

NOT_THEIRS = ("<", str(Path(__file__).parent), *(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")))


def imported(field: str, name: str, known: Iterable[str]) -> Callable[..., Any]:
    """The function that a path names; known: what might have been meant, where there is no such module."""
    path, _, factory = name.partition(":")
    try:
        module = importlib.import_module(path)
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        missing = isinstance(error, ModuleNotFoundError) and f"{path}.".startswith(f"{error.name}.")
        hint = f"; {nearest(path, known)}" if missing else ""
        raise BadInput(f"{field}: {name!r} cannot be imported ({told(error)}){hint}") from error
    if not hasattr(module, factory):
        functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise BadInput(f"{field}: {path} has no {factory!r}; {nearest(factory, functions)}")
    function: Callable[..., Any] = getattr(module, factory)
    if not callable(function):
        raise BadInput(f"{field}: {name!r} is of type {type(function).__name__}; a function is right")
    return function


def call(field: str, name: str, function: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """What the function of this name gives; a registered one's errors are ours, and seen whole."""
    if ":" not in name:
        return function(*given, **options)
    try:
        return function(*given, **options)
    except BadInput:
        raise
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":  # the device's, not theirs
            raise
        raise BadInput(f"{field}: {name!r} failed ({told(error)})") from error


def written_in(function: Callable[..., Any]) -> str:
    """Where a function is written, for error lines: `rounds in mine.py, line 7`."""
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None)  # a class or an object that can be called has none
    if code is None:
        return type(plain).__name__
    return f"{plain.__name__} in {Path(code.co_filename).name}, line {code.co_firstlineno}"


def told(error: BaseException) -> str:
    """What went wrong and the last of the user's own lines on the way there."""
    what = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":")
    lines = [line for line in traceback.extract_tb(error.__traceback__) if not line.filename.startswith(NOT_THEIRS)]
    if not lines or isinstance(error, SyntaxError):  # which says its own place
        return what
    return f"{what} in {Path(lines[-1].filename).name}, line {lines[-1].lineno}"
