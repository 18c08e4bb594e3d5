"""Claims: one worker at a time on one thing, without locks.

A folder's claims are numbered; the highest is the one that counts. To take over from a dead worker is to create the
next number, which only one can. So a worker that was thought dead and wakes up finds a higher number than its own, and
what it has written under its own number is in nobody's way.
"""

import errno
import os
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from baton import regular
from baton.errors import BadInput

NAME = re.compile(r"claim-(\d{6,9})")
LAST = 999_999_999  # number that a claim can have
TOKEN_BYTES = 1000  # more than any token has
RELEASED = "-"  # in the place of a token
EMPTY_SECONDS = 2.0  # a claim without a token is about to get one, unless its process died just then
KEPT = 20  # claims of before that stay: nobody's listing of a folder is older than that
NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV, errno.EACCES)


class Claim(NamedTuple):
    """A worker's right to a folder."""

    folder: Path
    number: int

    @property
    def path(self) -> Path:
        """Its file; it holds the worker's token until it is given back."""
        return self.folder / f"claim-{self.number:06d}"

    def holds(self) -> bool:
        """Whether nobody has taken over."""
        return self.path.exists() and newest(self.folder) == self.number

    def release(self) -> None:
        """Give it back: anybody may take over."""
        with suppress(OSError):
            place = os.open(self.path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(place, "w") as file:
                file.write(RELEASED)


def newest(folder: Path) -> int:
    """The number that counts; 0 where nobody ever claimed the folder, or there is none."""
    try:
        found = [int(match[1]) for name in os.listdir(folder) if (match := NAME.fullmatch(name))]
    except OSError:
        return 0
    return max(found, default=0)


def holder(folder: Path) -> str:
    """The token of the worker whose claim counts; empty where there is none, or it was given back."""
    return _token(folder, newest(folder))


def _token(folder: Path, number: int) -> str:
    """Whose claim that is; empty where it is nobody's."""
    end, found = time.monotonic() + EMPTY_SECONDS, ""
    while number and not found and time.monotonic() < end:
        try:
            found = regular.read(Claim(folder, number).path, TOKEN_BYTES, links=False).decode(errors="replace")
        except (OSError, BadInput):  # a link or a pipe is nobody's claim: the next number takes over
            return ""
        if not found:
            time.sleep(0.02)
    return "" if found == RELEASED else found


def take(folder: Path, token: str, dead: Callable[[str], bool]) -> Claim | None:
    """The claim, if nobody who lives has it; None where somebody does, or was faster, or the folder is gone."""
    number = newest(folder)  # read once: whoever takes over from it creates the next, and only one can
    if (by := _token(folder, number)) and not dead(by):
        return None
    if number >= LAST:
        raise BadInput(f"runs: {str(folder)!r} holds claim {number}; 'baton repair' moves it aside")
    claim = Claim(folder, number + 1)
    try:
        if not _created(claim.path, token) or not claim.holds():
            return None
    except FileNotFoundError:
        return None
    for old in range(max(1, claim.number - 2 * KEPT), claim.number - KEPT):
        with suppress(OSError):
            Claim(folder, old).path.unlink()
    return claim


def _created(path: Path, text: str) -> bool:
    """Whether the file is now there with this text, and was not before."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        temporary.write_text(text)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return temporary.stat().st_nlink == 2  # a network may say so though this very call made it
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            return _exclusively(path, text)
        return True
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _exclusively(path: Path, text: str) -> bool:
    """The same where there are no hard links: for a moment the file is there without its text."""
    try:
        place = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    except FileExistsError:
        return False
    with open(place, "w") as file:
        file.write(text)
    return True
