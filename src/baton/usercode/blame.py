"""A user's own functions, called, and what goes wrong in them told in one line."""

import inspect
import os
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

from baton.errors import BadInput
from baton.usercode import draws

_OURS = (str(Path(__file__).parents[1]), *(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")))
NOT_THEIRS = ("<", *(f"{folder}{os.sep}" for folder in _OURS))  # how the names of such files begin

SEEDED = (
    "model",
    "dataset",
)  # whose functions may draw: weights under a generator that Baton seeds, samples that are hashed
LONGEST = 400  # letters of what went wrong


def own(name: str) -> bool:
    """Whether a name, without its options, is a path to a user's own function, not a registered one."""
    return ":" in name


def ours(module: str) -> bool:
    """Whether a module is one of Baton's."""
    return module.partition(".")[0] == "baton"


class Line(NamedTuple):
    """One line of a user's own."""

    name: str  # of its function
    place: str

    def __str__(self) -> str:
        return f"{self.name} in {self.place}"


def call(field: str, name: str, function: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """What the function of this name gives; a registered one's errors are ours, and seen whole."""
    if not own(name):
        return function(*given, **options)
    try:
        before = draws.states()
        made = function(*given, **options)
        if field not in SEEDED and (whose := draws.moved(before)):
            raise BadInput(drawing(f"{field}: {name!r}", whose, function, given, options))
        return made
    except BadInput:
        raise
    except Exception as error:
        if _the_devices(error):
            raise
        place = "" if lines(error) else f"; {written_in(function)}"  # it was called in a way that it cannot be
        what = told(error, name.partition(":")[2])
        raise BadInput(f"{field}: {name!r} failed ({what}{place})") from error


def drawing(
    what: str, whose: str, function: Callable[..., Any], given: tuple[Any, ...], options: Mapping[str, Any]
) -> str:
    """Return the line that refuses draws from a global generator, with the place where they are made."""
    where = draws.line(function, given, options, NOT_THEIRS) or written_in(function)
    keyed = "expected sites.draw(shape, purpose) in a round, nn.Dropout in a model, elsewhere a generator of its own"
    return f"{what} draws from {whose}'s global generator ({where}); {keyed}, such as numpy.random.default_rng(0)"


@contextmanager
def blamed(theirs: bool = True) -> Iterator[None]:
    """What a user's own lines raise in here, wherever they were called from, is told in one line.

    theirs: whether there can be any; without, all errors are ours.
    """
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        found = lines(error)
        if not theirs or not found or _the_devices(error):
            raise
        raise BadInput(f"{found[-1]}: {_what(error)}") from error


def written_in(function: Callable[..., Any]) -> str:
    """Where a function is written, for error lines: `rounds in mine.py, line 7`."""
    plain = inspect.unwrap(function)
    while isinstance(plain, partial):
        plain = inspect.unwrap(plain.func)
    code = getattr(plain, "__code__", None)
    if code is not None:
        return f"{plain.__name__} in {Path(code.co_filename).name}, line {code.co_firstlineno}"
    made = plain if inspect.isclass(plain) else type(plain)  # an object that can be called
    try:
        return f"{made.__name__} in {Path(inspect.getfile(made)).name}, line {inspect.getsourcelines(made)[1]}"
    except (OSError, TypeError):  # not written in Python, or not in a file
        return str(getattr(plain, "__name__", made.__name__))


def place(name: str, function: Callable[..., Any]) -> str:
    """Where a user's own function is written, for the end of an error line; nothing, where it is a registered one."""
    return f" ({written_in(function)})" if own(name) else ""


def told(error: BaseException, known: str = "") -> str:
    """What went wrong and the last of the user's own lines on the way there; known: a function that needs no name."""
    found = lines(error)
    if not found or isinstance(error, SyntaxError):  # which says its own place
        return _what(error)
    last = found[-1]
    return f"{_what(error)} in {last.place}" if last.name in ("<module>", known) else f"{_what(error)}; {last}"


def _what(error: BaseException) -> str:
    """In one line; some libraries explain at length, and begin with what matters."""
    return shorten(f"{type(error).__name__}: {error}", LONGEST, placeholder=" ...").rstrip(":")


def lines(error: BaseException) -> list[Line]:
    """The user's own lines on the way to an error."""
    found: list[Line] = []
    for line in traceback.extract_tb(error.__traceback__):
        if not line.filename.startswith(NOT_THEIRS):
            inside = found and line.name in ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
            name = found[-1].name if inside else line.name
            found.append(Line(name, f"{Path(line.filename).name}, line {line.lineno}"))
    return found


def _the_devices(error: BaseException) -> bool:
    return type(error).__name__ == "OutOfMemoryError"
