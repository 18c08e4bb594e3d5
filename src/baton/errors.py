"""Bad input ends in one line that names the field, the value and what would be right."""

from collections.abc import Iterable
from difflib import get_close_matches


class BadInput(ValueError):
    """Something the user wrote cannot be used; the message is the one line to show."""


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of an error line: the closest known name, or all of them."""
    names = sorted(known)
    close = get_close_matches(word.lower(), names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
