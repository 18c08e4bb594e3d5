"""One chunk: its lanes from their checkpoint, or from the start, to the end."""

import platform
import time
from collections.abc import Generator, Iterator
from threading import Lock
from typing import NamedTuple

import torch

import baton
from baton.setting import Setting
from baton.simulate.arithmetic import How
from baton.simulate.books import ways
from baton.simulate.engine import Program, advance, start
from baton.store import Snapshot, Store, Work

CHECKPOINT_SECONDS = 20.0  # between checkpoints: what a crash can cost
SHARE = 10  # writing may take one part in so many of the time: large checkpoints are further apart

_BUILDING = Lock()  # reading a model off a module patches torch while it lasts


class Chunk(NamedTuple):
    """Lanes of one program that are trained together."""

    lanes: list[Setting]
    begun: int  # rounds that lie in the store as runs of their own
    number: int  # its place in the plan


def carry_out(chunk: Chunk, work: Work, store: Store, how: How, checkpoint: float) -> Generator[Snapshot, None, None]:
    """All its rounds that are left; then its runs are in the store. The time goes into the journal."""
    began = time.monotonic()
    try:
        with how.place():
            yield from _rounds(chunk, work, store, how, checkpoint)
    finally:  # also when stopped: the pieces' times add up
        store.log(_entry(chunk.lanes, how, time.monotonic() - began))


def _rounds(chunk: Chunk, work: Work, store: Store, how: How, checkpoint: float) -> Iterator[Snapshot]:
    with _BUILDING:
        program = Program(chunk.lanes, how.device, how.precision, how.threads)
    if work.in_flight(chunk.number):
        first = work.load(chunk.number, how.device)
    else:
        first = store.resume(chunk.lanes, chunk.begun, how.device) if chunk.begun else start(program)
    at, saved, pause = first, time.monotonic(), checkpoint
    try:
        for at in advance(program, first):
            if (began := time.monotonic()) - saved > pause:
                work.save(chunk.number, at)
                store.show(chunk.lanes, at)
                saved = time.monotonic()
                pause = max(checkpoint, SHARE * (saved - began))
            yield at
            if at.round % program.setting.eval_every == 0 and bool((at.diverged >= 0).all()):
                yield at._replace(round=program.setting.rounds)  # so that progress counts it as done
                break  # nothing left to train; asked only now and then, since the answer has to come off the device
    except (KeyboardInterrupt, GeneratorExit) as stop:
        if isinstance(stop, GeneratorExit) or not at.clients:  # inside a round what clients keep is no longer of `at`
            work.save(chunk.number, at)
        store.show(chunk.lanes, at)
        raise
    store.finish(chunk.lanes, at, how.precision, ways(program))
    work.drop(chunk.number)


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
