"""A user's own function, found by its path."""

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from baton.errors import BadInput, nearest
from baton.usercode import files, given
from baton.usercode.blame import ours, told


def imported(field: str, name: str, known: Iterable[str]) -> Callable[..., Any]:
    """The function that a path names; known: what might have been meant, where there is no such module."""
    if (passed := given.kept(field, name)) is not None:
        return passed
    path, _, factory = name.partition(":")
    module = _loaded(field, name, path, known)
    if not hasattr(module, factory):
        functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise BadInput(f"{field}: {path} has no {factory!r}{_instead(module, path)}; {nearest(factory, functions)}")
    function: Callable[..., Any] = getattr(module, factory)
    if not callable(function):
        raise BadInput(f"{field}: {name!r} is of type {type(function).__name__}; a function is right")
    return function


def _loaded(field: str, name: str, path: str, known: Iterable[str]) -> ModuleType:
    """The module; its source is remembered as it was when it was first asked for."""
    if path not in sys.modules:
        _look_here()
    try:
        module = importlib.import_module(path)
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        missing = isinstance(error, ModuleNotFoundError) and f"{path}.".startswith(f"{error.name}.")
        hint = f"; {nearest(path, known)}" if missing else ""
        raise BadInput(f"{field}: {name!r} cannot be imported ({told(error)}){hint}") from error
    if not ours(path):
        files.fingerprint(path)
    return module


def _look_here() -> None:
    """The working folder is looked in too, after all others: no file in it takes the place of an installed module."""
    try:
        here = os.getcwd()
    except OSError:  # it was removed
        return
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)


def _instead(module: ModuleType, path: str) -> str:
    """Where the module was found, if that is not in the working folder though one of this name lies there."""
    here, file = os.path.abspath(f"{path.replace('.', os.sep)}.py"), getattr(module, "__file__", None)
    if not os.path.isfile(here) or (file and os.path.exists(file) and os.path.samefile(here, file)):
        return ""
    return f" (it is {file or 'built in'}, not the file here; another file name is right)"
