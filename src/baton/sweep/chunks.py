"""Many runs: grouped into programs, cut into chunks that fit the memory, trained, stored, and gone on with."""

import hashlib
import json
import platform
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from threading import Lock
from typing import NamedTuple

import torch

import baton
from baton import algorithms
from baton.errors import BadInput
from baton.setting import Setting
from baton.simulate import memory as mem
from baton.simulate.arithmetic import How, arithmetic, cores
from baton.simulate.books import ways
from baton.simulate.engine import Program, Snapshot, advance, start
from baton.store import Laid, Store, Work
from baton.sweep.together import together

_BUILDING = Lock()  # reading a model off a module patches torch while it lasts
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
    share: list[float]  # of the device, one entry a chunk: small ones train side by side
    begun: list[int]  # rounds done by a shorter run in the store, one entry a chunk


def plan(
    settings: Sequence[Setting], store: Store, device: torch.device, memory: int | None, precision: str = "fp32"
) -> Plan:
    """Runs of equal shape_key become lanes of one program, cut evenly into chunks that fit.

    Runs whose beginning is in the store go on from it, together with those that do so from the same round. Loads every
    data set and draws every partition, so that what cannot work is said before anything trains.
    """
    budget = memory or mem.free(device)
    todo = [s for s in settings if not store.complete(s.run_id)]
    begun = store.begun(todo, precision)
    programs: dict[tuple[str, int], list[Setting]] = {}
    for setting in todo:
        programs.setdefault((setting.shape_key, begun[setting.run_id]), []).append(setting)
    chunks: list[list[Setting]] = []
    sizes: list[int] = []
    needs: list[float] = []  # of the memory, one entry a chunk
    for lanes in programs.values():
        sizes.append(mem.per_lane(lanes, budget, device))
        count = -(-len(lanes) // mem.lanes_that_fit(sizes[-1], budget))
        chunks += [lanes[len(lanes) * i // count : len(lanes) * (i + 1) // count] for i in range(count)]
        needs += [sizes[-1] * len(chunk) / budget for chunk in chunks[len(needs) :]]
    share = [min(1.0, max(_width(chunk, device), need)) for chunk, need in zip(chunks, needs, strict=True)]
    if sum(s < 1 for s in share) < 2:
        share = [1.0] * len(chunks)  # the only small one may have it all
    order = sorted(range(len(chunks)), key=lambda i: -share[i])  # the small ones last, together
    laid, parts = [chunks[i] for i in order], [share[i] for i in order]
    rounds = [begun[chunk[0].run_id] for chunk in laid]
    return Plan(laid, len(settings) - len(todo), len(programs), budget, sizes, parts, rounds)


def _width(chunk: list[Setting], device: torch.device) -> float:
    """The part of the device that a chunk's legs at once keep busy: a core each; a GPU takes some fifty."""
    legs = len(chunk) * (chunk[0].participants if algorithms.build(chunk[0].algorithm).parallel else 1)
    return legs / (cores() if device.type == "cpu" else 48)


def sweep(
    settings: Sequence[Setting],
    store: Store,
    device: torch.device,
    memory: int | None = None,
    checkpoint: float = CHECKPOINT_SECONDS,
    precision: str = "fp32",
) -> Generator[Progress, None, None]:
    """Train every run that is not complete; stopped at any moment, the same call goes on where it was.

    The chunks of a call are laid down before training, since numbers agree to the last bit only within the same chunk;
    checkpoints move a whole chunk at once. Yields after every round.
    """
    by_id = {s.run_id: s for s in settings}
    call = json.dumps([list(by_id), device.type, memory, precision])
    work = Work(store, hashlib.sha256(call.encode()).hexdigest()[:16])
    if work.plan() is None and all(store.complete(run) for run in by_id):
        return
    with work.lock(), arithmetic(precision):
        laid = work.plan()
        if laid is None:
            fresh = plan(settings, store, device, memory, precision)
            chunks = [[s.run_id for s in chunk] for chunk in fresh.chunks]
            laid, taken = _adopt(Laid(chunks, fresh.memory, fresh.share, precision, fresh.begun), store, work)
            work.write_plan(laid)
            for other, number in taken:  # only now: a crash before this leaves them where they were
                other.drop(number)
        todo = [[by_id[run] for run in chunk] for chunk in laid.chunks]
        left = [
            number
            for number, lanes in enumerate(todo)
            if work.in_flight(number) or not all(store.complete(s.run_id) for s in lanes)
        ]
        beside = sum(sorted(laid.share)[:2]) <= 1 and len(todo) > 1
        hows = [How(device, precision, max(1, int(cores() * share)), beside) for share in laid.share]
        jobs = [
            partial(_train, todo[number], laid.begun[number], number, work, store, hows[number], checkpoint)
            for number in left
        ]
        steps = [lanes[0].steps * len(lanes) for lanes in todo]
        done = [
            steps[number] * laid.begun[number] // lanes[0].rounds if number in left else steps[number]
            for number, lanes in enumerate(todo)
        ]
        cut = _cut([len(lanes) for lanes in todo], laid)
        with closing(together(jobs, [laid.share[number] for number in left])) as running:
            for job, at in running:
                number = left[job]
                lanes = todo[number]
                done[number] = steps[number] * at.round // lanes[0].rounds
                where = (number + 1, len(todo), len(lanes), at.round, lanes[0].rounds)
                yield Progress(*where, sum(done), sum(steps), cut)
        work.remove()


def _cut(sizes: list[int], laid: Laid) -> str:
    lanes = f"{sum(sizes):,} lane{'s' if sum(sizes) > 1 else ''}"
    if len(sizes) == 1:
        return f"{lanes} at once, in at most {mem.readable(laid.memory)}"
    return f"{lanes} in {len(sizes)} chunks of at most {max(sizes):,}, to fit {mem.readable(laid.memory)}"


def _train(
    lanes: list[Setting], begun: int, number: int, work: Work, store: Store, how: How, checkpoint: float
) -> Generator[Snapshot, None, None]:
    """One chunk from its checkpoint, or from the start, to its end; its time goes into the journal."""
    began = time.monotonic()
    try:
        with how.place():
            yield from _rounds(lanes, begun, number, work, store, how, checkpoint)
    finally:  # also when stopped: the pieces' times add up
        store.log(_entry(lanes, how, time.monotonic() - began))


def _rounds(
    lanes: list[Setting], begun: int, number: int, work: Work, store: Store, how: How, checkpoint: float
) -> Iterator[Snapshot]:
    with _BUILDING:
        program = Program(lanes, how.device, how.precision, how.threads)
    if work.in_flight(number):
        first = work.load(number, how.device)
    else:
        first = store.resume(lanes, begun, how.device) if begun else start(program)
    at, saved = first, time.monotonic()
    try:
        for at in advance(program, first):
            if time.monotonic() - saved > checkpoint:
                work.save(number, at)
                store.show(lanes, at)
                saved = time.monotonic()
            yield at
            if at.round % program.setting.eval_every == 0 and bool((at.diverged >= 0).all()):
                yield at._replace(round=program.setting.rounds)  # so that progress counts it as done
                break  # nothing left to train; asked only now and then, since the answer has to come off the device
    except (KeyboardInterrupt, GeneratorExit):
        work.save(number, at)
        store.show(lanes, at)
        raise
    store.finish(lanes, at, how.precision, ways(program))
    work.drop(number)


def _adopt(laid: Laid, store: Store, work: Work) -> tuple[Laid, list[tuple[Work, int]]]:
    """Chunks that another call left in flight are gone on with, as they are, where this call wants all their runs.

    Their checkpoints are copied to the front of this call's; also says where they came from.
    """
    wanted = {run for chunk in laid.chunks for run in chunk}
    taken: list[tuple[list[str], float, int]] = []
    origins: list[tuple[Work, int]] = []
    work.clear()  # what a crash between copying and planning may have left
    for folder in sorted(path.parent for path in (store.root / ".work").glob("*/plan.json")):
        other = Work(store, folder.name)
        try:
            with other.lock():
                found = other.plan()
                if found is None or found.precision != laid.precision:
                    continue
                for number, chunk in enumerate(found.chunks):
                    if other.in_flight(number) and wanted.issuperset(chunk):
                        work.save(len(taken), other.load(number, torch.device("cpu")))
                        origins.append((other, number))
                        taken.append((chunk, found.share[number], found.begun[number]))
                        wanted.difference_update(chunk)
        except BadInput:
            continue  # its own process is at work on it
    for chunk, share, begun in zip(laid.chunks, laid.share, laid.begun, strict=True):
        taken.append(([run for run in chunk if run in wanted], share, begun))
    chunks, shares, rounds = zip(*[each for each in taken if each[0]], strict=True)
    return laid._replace(chunks=list(chunks), share=list(shares), begun=list(rounds)), origins


def _entry(lanes: list[Setting], how: How, seconds: float) -> dict[str, object]:
    name = torch.cuda.get_device_name(how.device) if how.device.type == "cuda" else platform.machine()
    return {
        "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(seconds, 3),
        "lanes": len(lanes),
        "device": f"{how.device.type} ({name})",
        "precision": how.precision,
        "threads": how.threads,
        "versions": {"baton": baton.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "runs": [s.run_id for s in lanes],
    }
