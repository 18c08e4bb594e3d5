"""Messages that nobody would send: mutated and made up, through frames and schemas, and through whole federations.

`python tests/fuzz.py` tries 500,000 of the first kind and 20,000 of the second; in `make fuzz` 200,000 of the first are
atheris's (`fuzz_guided.py`). `test_fuzz.py` replays the corpus, and some of both kinds, in seconds. What is tried
follows from the seed alone.
"""

import argparse
import json
import random
import resource
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import torch

from baton.deploy import frames
from baton.deploy.frames import Garbled
from baton.deploy.messages import Evaluate, Half, Halved, Here, Look, Sums, Train, Trained
from baton.deploy.rules import Desk
from baton.deploy.wire import packed, unpacked
from baton.setting import Setting
from baton.sites.halves import Backward, Begin, End, Features, Forward, Up
from baton.sites.visit import Answer, Order
from baton.store import Store
from federation import Field, setting, train

CORPUS = Path(__file__).parent / "corpus" / "frames"
NUMBERS = (0, 1, -1, 2, 7, 255, 2**31, 2**53, 2**53 + 1, 2**63, 10**30, 10**400, 0.5, -0.0, 1e9, -1e9, 1e308)
ODD = (
    *NUMBERS,
    float("nan"),
    float("inf"),
    None,
    True,
    "",
    "x",
    "\udc80",
    "a" * 300,
    [],
    {},
    [[]],
    {"at": 0},
    {"of": {}},
)
ROOM = 400 << 20  # bytes that the process may grow by


def messages() -> list[object]:
    """One of each kind."""
    model = {"w": torch.ones(3, 2), "b": torch.zeros(2)}
    order = Order(model, 1, 2, 3, 0, 4, 5, 0.1, sent={"w": torch.zeros(3, 2)})
    up = Up(torch.ones(1, 5, 4), torch.zeros(1, 5, dtype=torch.int64), torch.ones(1, 5))
    halves = (
        Begin(order),
        Forward(),
        Features(torch.ones(1, 5, 4)),
        Backward(torch.ones(1, 5, 4), torch.ones(1)),
        End(),
    )
    answers = (3, torch.ones(1), up, Answer(model, 9, 4))
    return [
        Look("{}"),
        Here(12, "0.2.0"),
        Train("{}", "3.1", "2.1", order),
        Trained("3.1", Answer(model, 9, 4, {"w": torch.ones(3, 2)})),
        *(Half("{}", "3.1", i, half) for i, half in enumerate(halves)),
        *(Halved("3.1", i, answer) for i, answer in enumerate(answers)),
        Evaluate("{}", model, True),
        Sums(1.0, 2.0, 3.0, 1.0, 2.0, 3.0, {"auc": torch.tensor(0.5)}),
    ]


def seeds() -> list[bytes]:
    """The corpus: frames that are sound, and those that once were no Garbled."""
    return [path.read_bytes() for path in sorted(CORPUS.glob("*.bin"))]


# --- what is sent


def mutated(frame: bytes, draw: random.Random) -> bytes:
    """Bytes changed, cut, doubled; or the head's table changed, and put together again."""
    if draw.random() < 0.35:
        return _bytes(frame, draw)
    try:
        head, body = frames.parted(frame)
    except Garbled:
        return _bytes(frame, draw)
    data = bytearray(body)
    try:
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            _change(head, draw)
    except RecursionError:  # tables in tables from before, too deep for this script
        return _bytes(frame, draw)
    if draw.random() < 0.2:
        data = data[: draw.randrange(len(data) + 1)] + draw.randbytes(draw.choice((0, 1, 8)))
    if data and draw.random() < 0.2:
        place = draw.randrange(max(1, len(data) - 8))
        data[place : place + 8] = struct.pack("<d", draw.choice((float("nan"), float("inf"), -1e300, 0.0)))
    try:
        return frames.joined(head, [bytes(data)])
    except (ValueError, RecursionError):  # JSON cannot say it
        return _bytes(frame, draw)


def _bytes(frame: bytes, draw: random.Random) -> bytes:
    data = bytearray(frame)
    for _ in range(draw.choice((1, 2, 8))):
        kind, place = draw.randrange(4), draw.randrange(max(1, len(data)))
        if kind == 0 and data:
            data[place] = draw.randrange(256)
        elif kind == 1:
            data = data[:place]
        elif kind == 2:
            data[place:place] = draw.randbytes(draw.choice((1, 4, 16)))
        else:
            data[place:place] = data[place : place + 16]
    return bytes(data)


def _places(x: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Every place of a table."""
    if path:
        yield path
    items = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ()
    for key, inner in list(items):
        yield from _places(inner, (*path, key))


def _change(head: dict[str, object], draw: random.Random) -> None:
    """One place of a table becomes something else, goes, or is doubled."""
    places = list(_places(head))
    if not places:
        return
    *way, last = draw.choice(places)
    spot: object = head
    for step in way:
        spot = spot[step]  # type: ignore[index]
    kind = draw.randrange(5)
    if kind == 0 and isinstance(spot, dict):
        del spot[last]
    elif kind == 0 and isinstance(spot, list):
        spot.pop(last)  # type: ignore[call-overload]
    elif kind == 1 and isinstance(spot, list):
        spot.append(spot[last])  # type: ignore[call-overload]
    elif kind == 2:
        other: object = head
        for step in draw.choice(places):
            other = other[step]  # type: ignore[index]
        spot[last] = json.loads(json.dumps(other))  # type: ignore[index]
    else:
        spot[last] = draw.choice(ODD)  # type: ignore[index]


# --- what it is sent to


def read(frame: bytes) -> str:
    """What becomes of a frame; anything but Garbled is a fault."""
    with suppress(Garbled):
        frames.seconds(frame)
    try:
        found = unpacked(frame)
    except Garbled:
        return "garbled"
    packed(found)  # what is believed can be said again
    return type(found).__name__


class Ends(Desk):
    """Nobody ends the run."""


def federation(spec: str, folder: Path, draw: random.Random, share: float) -> Counter[str]:
    """A run to its end, a share of whose replies, and orders, are mutated on their way."""
    more = {"metrics": "auc,accuracy"} if draw.random() < 0.5 else {}
    more |= {"epochs": 1, "local_steps": 0} if draw.random() < 0.4 else {"local_steps": 1}
    s: Setting = setting(spec, rounds=20, eval_every=1, participants=5, model="logistic", **more)
    if spec.startswith(("ssl", "splitfed")):
        s = setting(spec, rounds=6, eval_every=1, participants=5, **more)
    field, store, seen = Field(s, folder / "field"), Store(folder / "runs"), Counter[str]()
    honest = dict(field.sites)

    def bend(site: str, _asked: bytes, got: bytes) -> bytes:
        if site == "site-0" or draw.random() > share:  # one of them is honest, so that there are numbers
            return got
        seen["replies"] += 1
        return mutated(got, draw)

    def order(site: str) -> None:
        def handle(frame: bytes) -> bytes:
            if draw.random() < share / 4:
                seen["orders"] += 1
                read(honest[site](mutated(frame, draw)))  # whatever it is asked, it answers
            return honest[site](frame)

        field.sites[site] = handle

    for site in field.sites:
        order(site)
    field.bend = bend
    try:
        train(s, field, store, Ends())
    except ValueError as error:  # as a Look that is answered by a refusal, or by another version, ends it
        if "site " not in str(error):
            raise
        seen["refused"] += 1
    return seen


SPECS = (
    "parallel",
    "sequential",
    "scaffold",
    "fednova",
    "parallel:weighting=size",
    "ssl:cut=1",
    "feddyn",
    "splitfed:cut=1",
)


def main() -> None:
    """Both kinds; the numbers, the time and the memory at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--legs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    began, draw, corpus = time.monotonic(), random.Random(asked.seed), seeds()
    before, kinds = _memory(), Counter[str]()
    for number in range(asked.messages):
        frame = mutated(draw.choice(corpus), draw)
        try:
            kinds[read(frame)] += 1
        except Exception:
            _keep(frame, number)
            raise
        if number % 50_000 == 0:
            assert _memory() - before < ROOM, "it grows"
    print(f"{asked.messages:,} messages in {time.monotonic() - began:.0f} s: {dict(kinds)}", flush=True)
    began, sent, runs = time.monotonic(), Counter[str](), 0
    while sent["replies"] + sent["orders"] < asked.legs:
        with tempfile.TemporaryDirectory() as folder:
            sent += federation(SPECS[runs % len(SPECS)], Path(folder), draw, 0.9)
        runs += 1
        assert _memory() - before < 2 * ROOM, "it grows"
    print(f"{sum(sent.values()):,} in {runs} federations in {time.monotonic() - began:.0f} s: {dict(sent)}")
    print(f"memory: {(_memory() - before) >> 20} MB more at the most")


def _memory() -> int:
    """The most that this process had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _keep(frame: bytes, number: int) -> None:
    CORPUS.mkdir(parents=True, exist_ok=True)
    (CORPUS / f"found-{number}.bin").write_bytes(frame)
    print(f"a fault; its frame is kept as found-{number}.bin", file=sys.stderr)


if __name__ == "__main__":
    main()
