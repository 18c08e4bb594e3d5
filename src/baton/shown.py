"""Text that others wrote, made safe for where it is shown: a terminal, a spreadsheet, Markdown, a page sent on."""

import builtins
import re
import sys
from pathlib import PurePosixPath
from typing import Any

# Control characters but for line break and tab, marks that turn the direction of writing, halves of characters.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = re.compile(r"[=+\-@\t\r]")
_PATH = re.compile(r"(?<![^:=+])(?:~[^/]*)?/.*?(?=,\w+=|$)")  # an absolute one in a spec: csv:/home/me/a.csv,label=y


def escaped(text: str) -> str:
    r"""Return a text whose control characters are written as \x1b, so that no terminal obeys them."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def print(*values: Any, sep: str = " ", end: str = "\n", file: Any = None, flush: bool = False) -> None:
    """Print as Python does, with control characters escaped."""
    where = sys.stdout if file is None else file
    builtins.print(escaped(sep.join(map(str, values))), end=end, file=where, flush=flush)


def cell(value: Any) -> Any:
    """Return a cell of a table that a spreadsheet does not evaluate: texts that begin as formulas have a ' before."""
    if not isinstance(value, str) or not _FORMULA.match(value) or _is_number(value):
        return value
    return f"'{value}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def markdown(text: str) -> str:
    """Return a text in which Markdown sees no HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def without_folders(value: Any) -> Any:
    """Return a setting's value in which absolute paths are the names of their files alone."""
    if not isinstance(value, str) or "/" not in value:
        return value
    return _PATH.sub(lambda found: PurePosixPath(found[0]).name or found[0], value)
