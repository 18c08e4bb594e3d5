"""Published maps: a JSON file {"client": [indices of its samples in the data set's official order]}.

The spec's one spelling is `file:PATH#HASH`, HASH being the first 12 hex digits of the file's SHA-256: a run trained on
one content cannot be mistaken for a run on another under the same path, and a stored run is read without the file.
"""

import hashlib
import json
import re
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from baton.errors import BadInput
from baton.names import Rest
from baton.partitions.draws import Ints
from baton.regular import read

DIGITS = 12
LARGEST = 128 << 20  # bytes of a file; a map of a million samples has some 8 million
PINNED = re.compile(rf"(.+)#([0-9a-f]{{{DIGITS}}})", re.DOTALL)


class _Object(list[tuple[str, Any]]):
    """A JSON object with all its keys, also those that occur twice."""


def pin(spec: str) -> str:
    """PATH -> PATH#HASH of the content that lies there now; PATH#HASH stays."""
    return spec if PINNED.fullmatch(spec) else f"{spec}#{_hash(_read(spec))}"


def file(labels: Ints, clients: int, *, path: Annotated[str, Rest(pin)]) -> Ints:
    """As a JSON map says: clients 0 .. M - 1, every sample at exactly one of them."""
    match = PINNED.fullmatch(path)
    place = match[1] if match else path
    content = _read(place)
    if match and _hash(content) != match[2]:
        raise BadInput(
            f"partition: {place!r} has other content ({_hash(content)}) than this setting was made for ({match[2]}); "
            "put that file back, or leave out the # and what follows to use the new one"
        )
    try:
        return parse(content, len(labels), clients)
    except BadInput as error:
        raise BadInput(f"partition: {place!r}: {error}") from None


def parse(content: bytes, samples: int, clients: int) -> Ints:
    """owner [N] from the bytes of a map."""
    try:
        pairs = json.loads(content, object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"not JSON ({error})") from None
    except MemoryError:
        raise BadInput(f"its {len(content):,} bytes of JSON do not fit the memory") from None
    held = _lists(pairs, clients)
    flat = list(chain.from_iterable(held))
    if not set(map(type, flat)) <= {int}:
        wrong = next(value for value in flat if type(value) is not int)
        raise BadInput(f"{_short(wrong)} is not an index of a sample; whole numbers are right")
    if flat and (min(flat) < 0 or max(flat) >= samples):
        wrong = next(value for value in flat if not 0 <= value < samples)
        raise BadInput(f"sample {_short(wrong)} is not in the data set; 0 to {samples - 1} is right")
    index = np.array(flat, dtype=np.int64)
    times = np.bincount(index, minlength=samples)
    if times.max(initial=0) > 1:
        raise BadInput(f"sample {int(times.argmax())} occurs {times.max()} times; each sample has one client")
    if len(index) < samples:
        raise BadInput(
            f"{len(index)} of the {samples} training samples have a client, sample {int(times.argmin())} for one has "
            "none; a map of this data set has all of them"
        )
    owner = np.empty(samples, dtype=np.int64)
    owner[index] = np.repeat(np.arange(clients), [len(part) for part in held])
    return owner


def _lists(pairs: Any, clients: int) -> list[list[Any]]:
    """The list of each client, in the clients' order."""
    if not isinstance(pairs, _Object):
        raise BadInput('not a map of clients; {"0": [samples], "1": [samples], ...} is right')
    found: dict[str, list[Any]] = {}
    for client, part in pairs:
        if not re.fullmatch(r"0|[1-9][0-9]{0,17}", client):
            raise BadInput(f'client {_short(client)} is not a number; "0" to "{clients - 1}" are right')
        if client in found:
            raise BadInput(f"client {client} occurs twice")
        if type(part) is not list:
            raise BadInput(f"client {client} has {_short(part)}; a list of sample indices is right")
        found[client] = part
    if len(found) != clients or int(max(found, key=int, default="0")) >= clients:
        beyond = f", the last is {max(found, key=int)}" if found else ""
        raise BadInput(
            f'it has {len(found)} clients{beyond}, and clients = {clients}; "0" to "{clients - 1}" are right'
        )
    return [found[str(m)] for m in range(clients)]


def dump(owner: Ints, clients: int) -> str:
    """The JSON map of a partition, indices in increasing order."""
    held = owner >= 0
    order = np.argsort(owner, kind="stable")[np.count_nonzero(~held) :]
    ends = np.cumsum(np.bincount(owner[held], minlength=clients)).tolist()
    flat = order.tolist()
    return json.dumps({str(m): flat[a:b] for m, (a, b) in enumerate(zip([0, *ends], ends, strict=False))}) + "\n"


def _read(path: str) -> bytes:
    try:
        return read(Path(path), LARGEST, field="partition")
    except (FileNotFoundError, NotADirectoryError):
        what = f"no file {path!r}; file:PATH names a JSON map of clients and their samples"
        raise BadInput(f"partition: {what}") from None
    except OSError as error:
        raise BadInput(f"partition: {path!r} cannot be read ({error})") from None


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
