"""One call of a sweep: its chunks laid down, trained side by side where they are small, and gone on with."""

import hashlib
import json
from collections.abc import Generator, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

import torch

from baton.errors import BadInput
from baton.setting import Setting
from baton.simulate import memory as mem
from baton.simulate.arithmetic import How, arithmetic, cores
from baton.store import Laid, Store, Work
from baton.sweep.chunk import CHECKPOINT_SECONDS, Chunk, carry_out
from baton.sweep.planning import plan
from baton.sweep.together import together
from baton.usercode import blamed


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
    with work.lock(), arithmetic(precision), blamed(any(s.theirs for s in settings)):
        laid = work.plan() or _lay_down(settings, store, work, device, memory, precision)
        chunks = [
            Chunk([by_id[run] for run in ids], begun, number)
            for number, (ids, begun) in enumerate(zip(laid.chunks, laid.begun, strict=True))
        ]
        left = [c for c in chunks if work.in_flight(c.number) or not all(store.complete(s.run_id) for s in c.lanes)]
        beside = sum(sorted(laid.share)[:2]) <= 1 and len(chunks) > 1
        hows = [How(device, precision, max(1, int(cores() * share)), beside) for share in laid.share]
        jobs = [partial(carry_out, chunk, work, store, hows[chunk.number], checkpoint) for chunk in left]
        steps = [chunk.lanes[0].steps * len(chunk.lanes) for chunk in chunks]
        done = list(steps)
        for number, lanes, begun in ((c.number, c.lanes, c.begun) for c in left):
            done[number] = steps[number] * begun // lanes[0].rounds
        cut = _cut([len(chunk.lanes) for chunk in chunks], laid.memory)
        with closing(together(jobs, [laid.share[chunk.number] for chunk in left])) as running:
            for job, at in running:
                chunk, rounds = left[job], left[job].lanes[0].rounds
                done[chunk.number] = steps[chunk.number] * at.round // rounds
                where = (chunk.number + 1, len(chunks), len(chunk.lanes), at.round, rounds)
                yield Progress(*where, sum(done), sum(steps), cut)
        work.remove()


def _lay_down(
    settings: Sequence[Setting], store: Store, work: Work, device: torch.device, memory: int | None, precision: str
) -> Laid:
    fresh = plan(settings, store, device, memory, precision)
    chunks = [[s.run_id for s in chunk] for chunk in fresh.chunks]
    laid, taken = _adopt(Laid(chunks, fresh.memory, fresh.share, precision, fresh.begun), store, work)
    work.write_plan(laid)
    for other, number in taken:  # only now: a crash before this leaves them where they were
        other.drop(number)
    return laid


def _adopt(laid: Laid, store: Store, work: Work) -> tuple[Laid, list[tuple[Work, int]]]:
    """Chunks that another call left in flight are gone on with, as they are, where this call wants all their runs.

    Their checkpoints are copied to the front of this call's; also says where they came from.
    """
    wanted = {run for chunk in laid.chunks for run in chunk}
    taken: list[tuple[list[str], float, int]] = []
    origins: list[tuple[Work, int]] = []
    work.clear()  # what a crash between copying and planning may have left
    for other in Work.every(store):
        try:
            with other.lock():
                found = other.plan()
                if found is None or found.precision != laid.precision:
                    continue
                for number, chunk in enumerate(found.chunks):
                    if other.in_flight(number) and wanted.issuperset(chunk):
                        work.take(len(taken), other, number)
                        origins.append((other, number))
                        taken.append((chunk, found.share[number], found.begun[number]))
                        wanted.difference_update(chunk)
        except BadInput:
            continue  # its own process is at work on it
    for chunk, share, begun in zip(laid.chunks, laid.share, laid.begun, strict=True):
        taken.append(([run for run in chunk if run in wanted], share, begun))
    chunks, shares, rounds = zip(*[each for each in taken if each[0]], strict=True)
    return laid._replace(chunks=list(chunks), share=list(shares), begun=list(rounds)), origins


def _cut(sizes: list[int], memory: int) -> str:
    lanes = f"{sum(sizes):,} lane{'s' if sum(sizes) > 1 else ''}"
    if len(sizes) == 1:
        return f"{lanes} at once, in at most {mem.readable(memory)}"
    return f"{lanes} in {len(sizes)} chunks of at most {max(sizes):,}, to fit {mem.readable(memory)}"
