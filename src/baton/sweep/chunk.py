"""One chunk: claimed, its lanes from their checkpoint, or from the start, to the end."""

import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from math import inf
from threading import Lock
from typing import NamedTuple

from baton.setting import Setting
from baton.simulate.arithmetic import How
from baton.simulate.books import ways
from baton.simulate.engine import Program, advance, start
from baton.simulate.facts import facts, lasting
from baton.store import Chunk, Facts, Snapshot, Store
from baton.store.claims import Claim
from baton.store.workers import Worker
from baton.sweep import stopping
from baton.sweep.sameness import same

CHECKPOINT_SECONDS = 20.0  # between checkpoints: what a crash can cost
FIRST_SECONDS = 1.0  # after which the first evaluation is saved, so that whoever watches sees it
SHARE = 10  # writing may take one part in so many of the time: large checkpoints are further apart

_BUILDING = Lock()  # reading a model off a module patches torch while it lasts


class Job(NamedTuple):
    """Lanes of one program that are trained together, and by whom."""

    chunk: Chunk
    lanes: list[Setting]
    store: Store
    worker: Worker
    how: How
    checkpoint: float  # seconds between two
    anyway: bool  # go on though it was begun in another way
    claim: Claim | None = None  # that somebody took for it; None: it is taken here


class _Lost(Exception):
    """Somebody else has taken the chunk over: this process was silent for too long."""


def carry_out(job: Job) -> Generator[Snapshot, None, None]:
    """All its rounds that are left; then its runs are in the store. Nothing, where somebody else has it.

    The time goes into the journal.
    """
    claim = job.claim or job.store.pool.take(job.chunk, job.worker)
    if claim is None or not claim.holds():
        return
    began, left = time.monotonic(), [s.run_id for s in job.lanes if not job.store.complete(s.run_id)]
    if not left:  # others trained them meanwhile
        job.store.pool.drop(job.chunk)
        return
    told: Facts = {}
    try:
        with job.how.place(), suppress(_Lost):
            yield from _rounds(job, claim, told)
    finally:  # also when stopped: the pieces' times add up
        claim.release()
        with suppress(OSError):
            job.store.log(_entry(job, left, told, time.monotonic() - began))


def _rounds(job: Job, claim: Claim, told: Facts) -> Iterator[Snapshot]:
    store, pool, chunk = job.store, job.store.pool, job.chunk
    with _BUILDING:
        program = Program(job.lanes, job.how.device, job.how.precision, job.how.threads)
    told |= facts(program, job.how)
    first = _first(job, program, told)
    at, saved, pause = first, time.monotonic(), job.checkpoint
    look, shown = first.round + program.setting.eval_every, saved + FIRST_SECONDS  # round and time of a first look

    def save() -> None:
        if not claim.holds():
            raise _Lost
        with stopping.saving():
            pool.save(claim, at, told)

    try:
        for at in advance(program, first):
            began = time.monotonic()
            if began - saved > pause or (at.round >= look and began > shown):
                save()
                saved = time.monotonic()
                shown = inf if at.round >= look else shown
                pause = max(job.checkpoint, SHARE * (saved - began))
            yield at
            if at.round % program.setting.eval_every == 0 and bool((at.diverged >= 0).all()):
                yield at._replace(round=program.setting.rounds)  # so that progress counts it as done
                break  # nothing left to train; asked only now and then, since the answer has to come off the device
    except BaseException as stop:
        between, inside = isinstance(stop, GeneratorExit), isinstance(stop, KeyboardInterrupt) or stopping.broken()
        if between or (inside and not at.clients):  # inside a round what clients keep is no longer of `at`
            with suppress(_Lost):
                save()
        raise
    if not claim.holds():
        raise _Lost
    with stopping.saving():
        given = job.how.precision, ways(program), lasting(told), job.worker.token, program.evaluate.measured
        store.finish(job.lanes, at, *given)
        pool.drop(chunk)


def _first(job: Job, program: Program, now: Facts) -> Snapshot:
    """What training goes on from: a checkpoint, shorter runs in the store, or nothing."""
    kept = job.store.pool.load(job.chunk, job.how.device)
    if kept is not None:
        same(kept[1], now, job.anyway)
        return kept[0]
    if job.chunk.laid.begun:
        at, hows = job.store.resume(job.lanes, job.chunk.laid.begun, job.how.device)
        for how in hows:
            same(how, lasting(now), job.anyway)
        return at
    return start(program)


def _entry(job: Job, runs: list[str], how: Facts, seconds: float) -> dict[str, object]:
    versions = {name: how[name] for name in ("baton", "torch", "python") if name in how}
    return {
        "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(seconds, 3),
        "lanes": len(job.lanes),
        "device": f"{job.how.device.type} ({how.get('processor', '?')})",
        "precision": job.how.precision,
        "threads": job.how.threads,
        "versions": versions,
        "how": how,
        "runs": runs,
    }
