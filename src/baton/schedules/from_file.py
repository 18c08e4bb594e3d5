"""An order given by a file: a line a round, its clients by number.

The spec's one spelling is `file:PATH#HASH`, as a partition's: a run on one content is not a run on another.
"""

import hashlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import torch
from torch import Tensor

from baton.errors import BadInput
from baton.names import Rest
from baton.regular import read

DIGITS, LARGEST = 12, 128 << 20
PINNED = re.compile(rf"(.+)#([0-9a-f]{{{DIGITS}}})", re.DOTALL)


def pin(spec: str) -> str:
    """PATH -> PATH#HASH of the content that lies there now; PATH#HASH stays."""
    return spec if PINNED.fullmatch(spec) else f"{spec}#{_hash(_read(spec))}"


def file(seed: Tensor, round: Tensor, clients: int, participants: int, *, path: Annotated[str, Rest(pin)]) -> Tensor:
    """As a file says: a line a round, S different clients with spaces or commas between; then from its start again."""
    match = PINNED.fullmatch(path)
    orders = _orders(match[1] if match else path, match[2] if match else "", clients, participants)
    return orders.to(seed.device)[round % len(orders)]


@lru_cache(maxsize=8)
def _orders(place: str, wanted: str, clients: int, participants: int) -> Tensor:
    content = _read(place)
    if wanted and _hash(content) != wanted:
        raise BadInput(
            f"schedule: {place!r} has other content ({_hash(content)}) than this setting was made for ({wanted})"
        )
    rows = []
    for number, line in enumerate(content.decode("ascii", "replace").splitlines(), 1):
        words = line.replace(",", " ").split()
        if not words:
            continue
        wrong = f"schedule: {place!r}, line {number}"
        if not all(word.isdecimal() and int(word) < clients for word in words):
            raise BadInput(f"{wrong}: {line[:40]!r}; numbers of clients, 0 to {clients - 1}, are right")
        if len(words) != participants or len(set(map(int, words))) != participants:
            raise BadInput(
                f"{wrong}: {len(set(words))} clients in {len(words)} places; S = {participants} different ones is right"
            )
        rows.append([int(word) for word in words])
    if not rows:
        raise BadInput(f"schedule: {place!r} has no line; one a round is right")
    return torch.tensor(rows)


def _read(path: str) -> bytes:
    try:
        return read(Path(path), LARGEST, field="schedule")
    except (FileNotFoundError, NotADirectoryError):
        raise BadInput(f"schedule: no file {path!r}; file:PATH names one of a line a round") from None
    except OSError as error:
        raise BadInput(f"schedule: {path!r} cannot be read ({error})") from None


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]
