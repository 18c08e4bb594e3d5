"""One call of a sweep: its runs laid down as chunks in the store's pool, and taken from there until all are complete.

Any number of processes may do so at once, with the same runs or some of them: each takes what nobody else is at, and
waits at the end for what others train.
"""

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import torch

from baton import datasets
from baton.clients import owners, steps
from baton.notice import many, once
from baton.setting import Setting
from baton.simulate import memory as mem
from baton.simulate.arithmetic import How, arithmetic, cores
from baton.simulate.facts import machine
from baton.store import Chunk, History, Laid, Snapshot, Store
from baton.store.workers import Worker
from baton.sweep import stopping
from baton.sweep.chunk import CHECKPOINT_SECONDS, Job, carry_out
from baton.sweep.planning import Cut, plan
from baton.sweep.together import together
from baton.usercode import blamed

LOOK_SECONDS = 0.2  # between two looks at what others do


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
    waiting: int = 0  # runs that others train, where there is nothing else left to do
    history: History | None = None  # what the chunk's lanes have measured so far
    name: str = ""  # of the chunk's folder


class Shard(NamedTuple):
    """Which of several processes this is, so that they begin in different places."""

    number: int  # from 1
    of: int

    def order(self, chunks: list[Chunk]) -> list[Chunk]:
        """Its own part first, then what the others have not come to."""
        return sorted(chunks, key=lambda chunk: (self._home(chunk) - self.number) % self.of)

    def _home(self, chunk: Chunk) -> int:
        """Told from the random end of its name, which stays while other chunks come and go."""
        return int(chunk.folder.name[-8:], 16) % self.of + 1


class Call(NamedTuple):
    """What is wanted, by whom, and how it is to be computed."""

    wanted: dict[str, Setting]  # by run id
    store: Store
    worker: Worker
    device: torch.device
    memory: int | None
    precision: str
    checkpoint: float
    anyway: bool
    cut: Cut
    shard: Shard | None

    def whole(self, chunk: Chunk) -> bool:
        """Whether a chunk could be trained for this call: all of it is wanted, in this way, and it fits."""
        laid = chunk.laid
        alike = (laid.device, laid.precision) == (self.device.type, self.precision)
        fits = self.memory is None or laid.memory <= self.memory or chunk.started
        return alike and fits and self.wanted.keys() >= set(laid.runs)

    def counts_on(self, chunk: Chunk) -> bool:
        """Whether its runs need not be laid down again: this call can train them, or somebody who lives will."""
        return self.whole(chunk) or self.store.pool.wanted(chunk)

    def chunks(self) -> list[Chunk]:
        """Those of the pool that hold any of its runs."""
        return [c for c in self.store.pool.chunks() if not self.wanted.keys().isdisjoint(c.laid.runs)]

    def left(self, of: Iterable[str]) -> list[str]:
        """Those of some runs that are not complete."""
        return [run for run in of if not self.store.complete(run)]


def sweep(
    settings: Sequence[Setting],
    store: Store,
    device: torch.device,
    memory: int | None = None,
    checkpoint: float = CHECKPOINT_SECONDS,
    precision: str = "fp32",
    anyway: bool = False,
    cut: Cut = Cut(),  # noqa: B008 it never changes
    shard: Shard | None = None,
    by: "Trainer | None" = None,
) -> Generator[Progress, None, None]:
    """Train every run that is not complete; stopped at any moment, the same call goes on where it was.

    Chunks are laid down before training, since numbers agree to the last bit only within the same chunk; checkpoints
    move a whole chunk at once. Yields after every round, and now and then while others train what is wanted.

    anyway: go on with what was begun in another way, though the last digits may differ. shard: begin with this part,
    and end when others are at all that is left. by: who trains chunks, if not this process.
    """
    by_id = {s.run_id: s for s in settings}
    if all(store.complete(run) for run in by_id):
        _tidy(store)
        return
    for s in by_id.values():
        Setting.from_json(s.to_json())  # what is finished can be read back: refused before anything is trained
    with store.pool.workers.working() as worker, arithmetic(precision), blamed(any(s.theirs for s in settings)):
        for name, clients in dict.fromkeys((s.dataset, s.clients) for s in settings):
            for note in datasets.load(name, clients).notes:
                once(f"data: {note}")
        for triple in dict.fromkeys((s.dataset, s.partition, s.clients) for s in settings):
            owners(*triple)  # a number of clients that cannot be is refused before a round of them is tried
        call = Call(by_id, store, worker, device, memory, precision, checkpoint, anyway, cut, shard)
        store.pool.clean()
        yield from _work(call, by or _train)


def _work(call: Call, by: "Trainer") -> Generator[Progress, None, None]:
    left, pool = call.left(call.wanted), call.store.pool
    count = Count(call, left)
    while left:
        stopping.check()
        chunks = call.chunks()
        covered = {run for chunk in chunks if call.counts_on(chunk) for run in chunk.laid.runs}
        missing = [call.wanted[run] for run in left if run not in covered]
        if missing:
            _lay_down(call, missing)
            left = call.left(left)
            continue
        mine = [c for c in chunks if call.whole(c) and pool.free(c) and _open(call.store, c)]
        trained = False
        for at in by(call, call.shard.order(mine) if call.shard else mine, count):
            trained = True
            yield at
        left = call.left(left)
        if left and not trained:
            if call.shard and not mine:
                return
            yield count.waiting(left)
            time.sleep(LOOK_SECONDS)
    _tidy(call.store)


def _open(store: Store, chunk: Chunk) -> bool:
    """Whether any of its runs is not complete."""
    return not all(store.complete(run) for run in chunk.laid.runs)


def _tidy(store: Store) -> None:
    """Chunks that are done with, because their process ended just before it could say so."""
    for chunk in store.pool.chunks():
        if not _open(store, chunk) and store.pool.free(chunk):
            store.pool.drop(chunk)


def _lay_down(call: Call, missing: list[Setting]) -> None:
    """Plan first, which may take long; then, with nobody else at it, lay down what is still missing."""
    store, pool = call.store, call.store.pool
    fresh = plan(missing, store, call.device, call.memory, call.precision, call.cut)
    where = (call.device.type, call.precision)
    threads = call.cut.cores if call.device.type == "cpu" else 0
    with pool.planning(call.worker):
        taken = set[str]()
        for chunk in call.chunks():
            if call.counts_on(chunk):
                taken |= set(chunk.laid.runs)
            elif not chunk.started:  # who laid it is dead, and not all of it is wanted
                pool.drop(chunk)
        for lanes, share, need, begun in zip(fresh.chunks, fresh.share, fresh.needs, fresh.begun, strict=True):
            own = [s for s in lanes if s.run_id not in taken and not store.complete(s.run_id)]
            if own:
                ids, texts = [s.run_id for s in own], [s.to_json() for s in own]
                bytes_ = need * len(own) // len(lanes)
                how = machine(call.device)
                pool.lay(Laid(ids, texts, *where, share, bytes_, begun, call.worker.token, how, threads))


def _train(call: Call, mine: list[Chunk], count: "Count") -> Generator[Progress, None, None]:
    """Chunks, side by side where they are small; each is claimed when its turn comes."""
    if not mine:
        return
    share = [max(c.laid.share, min(1.0, c.laid.threads / cores())) for c in mine]  # laid on a larger machine, maybe
    beside = sum(sorted(share)[:2]) <= 1 and len(mine) > 1
    jobs = []
    for chunk in mine:
        threads = chunk.laid.threads or max(1, int(cores() * chunk.laid.share))
        how = How(call.device, call.precision, threads, beside)
        lanes = [call.wanted[run] for run in chunk.laid.runs]
        jobs.append(Job(chunk, lanes, call.store, call.worker, how, call.checkpoint, call.anyway))
    count.begin(mine)
    running = together([partial(carry_out, job) for job in jobs], share)
    try:
        with stopping.patient():
            for number, at in running:
                yield count.at(mine[number], at)
                stopping.check()
    finally:
        with stopping.saving():
            running.close()


class Count:
    """What is done of all that a call wants, for people."""

    def __init__(self, call: Call, left: Sequence[str]) -> None:
        self.call = call
        self.total = sum(steps(s) for s in call.wanted.values())
        self.elsewhere = self.total - sum(steps(call.wanted[run]) for run in left)  # steps that others did
        self.seen: dict[str, int] = {}  # name of a chunk -> steps done
        self.cut = ""

    def begin(self, chunks: Sequence[Chunk]) -> None:
        """These are trained next."""
        for chunk in chunks:
            self.seen.setdefault(chunk.folder.name, self._steps(chunk, chunk.laid.begun))
        programs = {(self.call.wanted[chunk.laid.runs[0]].shape_key, chunk.laid.begun) for chunk in chunks}
        sizes = [len(chunk.laid.runs) for chunk in chunks]
        budget = 0 if self.call.cut.parts > 1 else self.call.memory or mem.free(self.call.device)
        self.cut = self.cut or _cut(sizes, len(programs), budget)

    def _steps(self, chunk: Chunk, rounds: int) -> int:
        first = self.call.wanted[chunk.laid.runs[0]]
        return steps(first) * len(chunk.laid.runs) * rounds // first.rounds

    def _done(self) -> int:
        return min(self.total, self.elsewhere + sum(self.seen.values()))

    def at(self, chunk: Chunk, at: Snapshot) -> Progress:
        """After a round of a chunk."""
        return self.told(chunk, at.round, at.history)

    def told(self, chunk: Chunk, round: int, history: History | None = None) -> Progress:
        """When all that is known is how far a chunk is."""
        name, rounds = chunk.folder.name, self.call.wanted[chunk.laid.runs[0]].rounds
        self.seen[name] = self._steps(chunk, round)
        where = (list(self.seen).index(name) + 1, len(self.seen), len(chunk.laid.runs), round, rounds)
        return Progress(*where, self._done(), self.total, self.cut, 0, history, name)

    def waiting(self, left: Sequence[str]) -> Progress:
        """While others train."""
        todo = sum(steps(self.call.wanted[run]) for run in left)
        self.elsewhere = max(self.elsewhere, self.total - todo - sum(self.seen.values()))
        cut = self.cut or f"{many(len(left), 'run')} in training by other processes"
        return Progress(0, len(self.seen), 0, 0, 0, self._done(), self.total, cut, len(left))


Trainer = Callable[[Call, list[Chunk], Count], Generator[Progress, None, None]]


def _cut(sizes: list[int], programs: int, memory: int) -> str:
    """How many runs, and how they are trained together; memory is named where it parts what could be one chunk.

    memory: 0 where they were cut for another reason.
    """
    runs = many(sum(sizes), "run")
    if len(sizes) == 1:
        return f"training {runs}" + (" at once" if sum(sizes) > 1 else "")
    why = f", to fit {mem.readable(memory)}" if memory and len(sizes) > programs else ""
    return f"training {runs} in {len(sizes)} chunks of at most {max(sizes):,}{why}"
