"""Many runs: grouped into programs, cut into chunks that fit the memory, trained, stored, and gone on with."""

import hashlib
import json
import platform
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch

import baton
from baton import memory as mem
from baton.engine import Program, Snapshot, advance, start
from baton.errors import BadInput
from baton.setting import Setting
from baton.store import Laid, Store, Work

CHECKPOINT_SECONDS = 20.0  # between checkpoints: what a crash can cost


class Progress(NamedTuple):
    """Where a sweep stands."""

    chunk: int  # from 1
    chunks: int
    lanes: int
    round: int
    rounds: int
    steps: int  # SGD steps done, all lanes of all chunks together
    total: int
    cut: str  # how the runs were cut into chunks


class Plan(NamedTuple):
    """What a sweep is going to do."""

    chunks: list[list[Setting]]
    done: int  # runs that are complete already
    programs: int
    memory: int
    per_lane: list[int]  # bytes, one entry a program


def device_of(name: str) -> torch.device:
    """`auto` takes a GPU where there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise BadInput(f"device: {name!r}; auto, cpu or cuda is right")
    if name == "cuda" and not torch.cuda.is_available():
        raise BadInput("device: 'cuda' is not here; auto or cpu is right")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")


def plan(settings: Sequence[Setting], store: Store, device: torch.device, memory: int | None) -> Plan:
    """Runs of equal shape_key become lanes of one program, cut evenly into chunks that fit.

    Loads every data set and draws every partition, so that what cannot work is said before anything trains.
    """
    budget = memory or mem.free(device)
    todo = [s for s in settings if not store.complete(s.run_id)]
    programs: dict[str, list[Setting]] = {}
    for setting in todo:
        programs.setdefault(setting.shape_key, []).append(setting)
    chunks, sizes = [], []
    for lanes in programs.values():
        sizes.append(mem.per_lane(lanes))
        count = -(-len(lanes) // mem.lanes_that_fit(sizes[-1], budget))
        chunks += [lanes[len(lanes) * i // count : len(lanes) * (i + 1) // count] for i in range(count)]
    return Plan(chunks, len(settings) - len(todo), len(programs), budget, sizes)


def sweep(
    settings: Sequence[Setting],
    store: Store,
    device: torch.device,
    memory: int | None = None,
    checkpoint: float = CHECKPOINT_SECONDS,
) -> Generator[Progress, None, None]:
    """Train every run that is not complete; stopped at any moment, the same call goes on where it was.

    The chunks of a call are laid down before training, since numbers agree to the last bit only within the same chunk;
    checkpoints move a whole chunk at once. Yields after every round.
    """
    name = hashlib.sha256(json.dumps([[s.run_id for s in settings], device.type, memory]).encode()).hexdigest()[:16]
    work = Work(store, name)
    by_id = {s.run_id: s for s in settings}
    if work.plan() is None and all(store.complete(run) for run in by_id):
        return
    with work.lock(), _one_thread():
        laid = work.plan()
        if laid is None:
            fresh = plan(settings, store, device, memory)
            chunks, taken = _adopt([[s.run_id for s in chunk] for chunk in fresh.chunks], store, work)
            laid = Laid(chunks, fresh.memory)
            work.write_plan(laid)
            for other, number in taken:  # only now: a crash before this leaves them where they were
                other.drop(number)
        todo = [[by_id[run] for run in chunk] for chunk in laid.chunks]
        total, done = sum(s.steps for lanes in todo for s in lanes), 0
        cut = _cut([len(lanes) for lanes in todo], laid.memory)
        for number, lanes in enumerate(todo):
            if work.in_flight(number) or not all(store.complete(s.run_id) for s in lanes):
                began = time.monotonic()
                try:
                    for at in _train(lanes, number, work, store, device, checkpoint):
                        now = done + lanes[0].steps * len(lanes) * at.round // lanes[0].rounds
                        where = (number + 1, len(todo), len(lanes), at.round, lanes[0].rounds)
                        yield Progress(*where, now, total, cut)
                finally:  # also when stopped: the pieces' times add up
                    store.log(_entry(lanes, device, time.monotonic() - began))
            done += lanes[0].steps * len(lanes)
        work.remove()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Lanes' operations are small: a second thread inside one gains little, and loses a lot on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _cut(sizes: list[int], memory: int) -> str:
    lanes = f"{sum(sizes):,} lane{'s' if sum(sizes) > 1 else ''}"
    if len(sizes) == 1:
        return f"{lanes} at once, in at most {mem.readable(memory)}"
    return f"{lanes} in {len(sizes)} chunks of at most {max(sizes):,}, to fit {mem.readable(memory)}"


def _train(
    lanes: list[Setting], number: int, work: Work, store: Store, device: torch.device, checkpoint: float
) -> Iterator[Snapshot]:
    """One chunk from its checkpoint, or from the start, to its end."""
    program = Program(lanes, device)
    begun = work.load(number, device) if work.in_flight(number) else start(program)
    at, saved = begun, time.monotonic()
    try:
        for at in advance(program, begun):
            if time.monotonic() - saved > checkpoint:
                work.save(number, at)
                store.show(lanes, at)
                saved = time.monotonic()
            yield at
            if at.round % program.setting.eval_every == 0 and bool((at.diverged >= 0).all()):
                break  # nothing left to train; asked only now and then, since the answer has to come off the device
    except (KeyboardInterrupt, GeneratorExit):
        work.save(number, at)
        store.show(lanes, at)
        raise
    store.finish(lanes, at)
    work.drop(number)


def _adopt(laid: list[list[str]], store: Store, work: Work) -> tuple[list[list[str]], list[tuple[Work, int]]]:
    """Chunks that another call left in flight are gone on with, as they are, where this call wants all their runs.

    Their checkpoints are copied to the front of this call's; also says where they came from.
    """
    wanted = {run for chunk in laid for run in chunk}
    taken: list[list[str]] = []
    origins: list[tuple[Work, int]] = []
    work.clear()  # what a crash between copying and planning may have left
    for folder in sorted(path.parent for path in (store.root / ".work").glob("*/plan.json")):
        other = Work(store, folder.name)
        try:
            with other.lock():
                found = other.plan()
                for number, chunk in enumerate(found.chunks if found else []):
                    if other.in_flight(number) and wanted.issuperset(chunk):
                        work.save(len(taken), other.load(number, torch.device("cpu")))
                        origins.append((other, number))
                        taken.append(chunk)
                        wanted.difference_update(chunk)
        except BadInput:
            continue  # its own process is at work on it
    rest = [[run for run in chunk if run in wanted] for chunk in laid]
    return taken + [chunk for chunk in rest if chunk], origins


def _entry(lanes: list[Setting], device: torch.device, seconds: float) -> dict[str, object]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(seconds, 3),
        "lanes": len(lanes),
        "device": f"{device.type} ({name})",
        "threads": torch.get_num_threads(),
        "versions": {"baton": baton.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "runs": [s.run_id for s in lanes],
    }
