"""Functions and modules passed in Python where a name could stand: each gets one."""

import copy
import hashlib
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

from baton.errors import BadInput
from baton.usercode import files
from baton.usercode.objects import inside, parts
from baton.usercode.references import references

GIVEN = "given"  # stands for a module in the names of functions that cannot be imported
_NAME = re.compile(r"\w+_[0-9a-f]{16}")
_GIVEN: dict[str, Callable[..., Any]] = {}  # as long as this process lives


class Copy:
    """A factory of copies of one torch module, which starts from its own weights whatever the seed."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __call__(self, _shape: tuple[int, ...], _classes: int) -> Any:
        """A copy; it must fit the samples."""
        return copy.deepcopy(self.module)


def named(field: str, value: Any) -> str:
    """What to write for a function: `module:name` where a file has it, else a name that tells it from all others."""
    if hasattr(value, "state_dict") and not isinstance(value, type):
        return _kept(Copy(value), type(value).__name__, _of_module(value))
    if not callable(value):
        raise BadInput(f"{field}: a {type(value).__name__} is no name and no function; one of them is right")
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    home = sys.modules.get(str(module))
    if files.file_of(home) is not None and name.isidentifier() and getattr(home, name, None) is value:
        return f"{module}:{name}"
    inner = getattr(value, "func", value)  # a partial's
    text = "\0".join((*_told(value), *references([value])))
    word = getattr(inner, "__name__", type(inner).__name__)
    return _kept(value, word, hashlib.sha256(text.encode(errors="surrogatepass")))


def _told(value: Any) -> Iterator[str]:
    """What tells it from others of its place: two functions that one function made may hold other things."""
    yield from parts(value, {})
    if isinstance(value, partial):
        yield from _told(value.func)
    elif isinstance(value, FunctionType):
        yield from inside(value, {})
    elif not isinstance(value, type):
        yield from parts(dict(getattr(value, "__dict__", {})), {})


def _kept(value: Callable[..., Any], word: str, digest: Any) -> str:
    plain = re.sub(r"\W", "", word) or "function"  # a lambda has signs in its name
    name = f"{plain}_{digest.hexdigest()[:16]}"
    _GIVEN[name] = value
    return f"{GIVEN}:{name}"


def _of_module(module: Any) -> Any:
    """Of its layers, its class and its weights."""
    digest = hashlib.sha256("\0".join((repr(module), *parts(type(module), {}))).encode(errors="surrogatepass"))
    for name, leaf in module.state_dict().items():
        held = leaf.detach().cpu().contiguous().numpy()
        digest.update(f"\n{name} {held.dtype} {held.shape}\n".encode())
        digest.update(held.tobytes())
    return digest


def kept(field: str, name: str) -> Callable[..., Any] | None:
    """The function of such a name; None where it is the name of something else."""
    home, _, own = name.partition(":")
    if home != GIVEN or not _NAME.fullmatch(own):
        return None
    if own not in _GIVEN:
        raise BadInput(f"{field}: {name} is a function that a Python program passed; only there, passed again, is it")
    return _GIVEN[own]
