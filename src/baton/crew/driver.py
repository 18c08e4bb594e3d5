"""The driver of a cluster: chunks of the pool claimed, sent out, and taken back, until none is left.

A worker or machine that dies is told by the cluster. Its chunk is claimed anew, under the next number, and goes on from
its last checkpoint with somebody else; should the dead one only have been asleep, it finds that it was passed.
"""

import os
from collections.abc import Generator
from typing import NamedTuple

from baton.crew.errand import Errand, Outcome, Parcel, Word
from baton.crew.on_ray import Cluster, Ended
from baton.errors import BadInput
from baton.notice import once
from baton.setting import Setting
from baton.store import Chunk
from baton.store.claims import Claim
from baton.sweep import Progress, stopping
from baton.sweep.call import Call, Count

POLL_SECONDS = 0.2
AHEAD = 2  # times as many chunks are sent out as train at once, so that nobody waits for the driver
TRIES = 5  # deaths of a chunk's workers, without a round more in between, after which it is given up


class _Out(NamedTuple):
    """A chunk that was sent out."""

    chunk: Chunk
    claim: Claim
    round: int  # as far as was told
    deaths: int  # of its workers since


class Driver:
    """Trains chunks of a call on a cluster: what `sweep` takes for `by`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.other: dict[str, str] = {}  # chunks that nobody here can go on with as they were begun: why

    def __call__(self, call: Call, mine: list[Chunk], count: Count) -> Generator[Progress, None, None]:
        """All these chunks; what cannot go on as it was begun is told once the others are done."""
        ready = [chunk for chunk in mine if chunk.folder.name not in self.other]
        if mine and not ready:
            raise BadInput(next(iter(self.other.values())))
        count.begin(ready)
        waiting, out = ready[::-1], dict[str, _Out]()
        try:
            with stopping.patient():
                while waiting or out:
                    stopping.check()
                    while waiting and len(out) < AHEAD * max(1, self.cluster.slots(waiting[-1].laid)):
                        self._send(call, waiting.pop(), out)
                    for event in self.cluster.poll(POLL_SECONDS):
                        yield from self._heard(call, count, event, out)
        finally:
            with stopping.saving():
                self._end(call, count, out)

    def _send(self, call: Call, chunk: Chunk, out: dict[str, _Out], before: _Out | None = None) -> None:
        """Claim it and hand it on; nothing, where somebody else has it, or all of it is there."""
        pool, laid = call.store.pool, chunk.laid
        if not call.left(laid.runs):
            pool.drop(chunk)
            return
        claim = pool.take(chunk, call.worker)
        if claim is None:
            return
        name = chunk.folder.name
        variables = {key: value for key, value in os.environ.items() if key.startswith("BATON_")}
        errand = Errand(
            *(str(call.store.root.resolve()), call.worker.token, name, claim.number, laid),
            *(call.checkpoint, call.anyway, os.getcwd(), variables),
        )
        begun = {run: call.store.packed(run) for run in _beginnings(call, laid.settings, laid.begun)}
        kept = pool.packed(chunk)
        self.cluster.send(errand, Parcel(kept, begun) if kept or begun else None)
        out[name] = before._replace(claim=claim) if before else _Out(chunk, claim, laid.begun, 0)

    def _heard(
        self, call: Call, count: Count, event: Word | Ended, out: dict[str, _Out]
    ) -> Generator[Progress, None, None]:
        sent = out.get(event.name)
        if isinstance(event, Word):
            if sent is None or event.number != sent.claim.number:
                return  # from one that was taken for dead
            if event.checkpoint is not None:
                call.store.pool.keep(sent.claim, event.checkpoint)
            if event.round > sent.round:
                out[event.name] = sent._replace(round=event.round, deaths=0)
                yield count.told(sent.chunk, event.round)
        elif sent is not None:
            del out[event.name]
            if event.outcome is None:
                self._died(call, sent, event.why, out)
            else:
                self._back(call, sent, event.outcome, out)
                if event.outcome.kind == "done":
                    yield count.told(sent.chunk, call.wanted[sent.chunk.laid.runs[0]].rounds)

    def _died(self, call: Call, sent: _Out, why: str, out: dict[str, _Out]) -> None:
        """Somebody else goes on."""
        sent.claim.release()
        if sent.deaths + 1 >= TRIES:
            runs = f"{len(sent.chunk.laid.runs):,} runs from {sent.chunk.laid.runs[0]} on"
            raise BadInput(f"on: {TRIES} workers died over the same {runs}; the last because: {why}")
        once("a worker died, and another goes on from its checkpoint")
        if not self.cluster.asked:
            self._send(call, sent.chunk, out, sent._replace(deaths=sent.deaths + 1))

    def _back(self, call: Call, sent: _Out, outcome: Outcome, out: dict[str, _Out]) -> None:
        """What was brought back is put where it belongs; what went wrong is said."""
        store = call.store
        for line in outcome.said.splitlines():
            once(line.removeprefix("baton: "))
        if outcome.runs and sent.claim.holds():
            store.receive(outcome.runs, call.worker.token)
        if outcome.checkpoint is not None:
            store.pool.keep(sent.claim, outcome.checkpoint)
        for entry in outcome.journal:
            store.log(dict(entry))
        sent.claim.release()
        if outcome.kind in ("bad", "refused"):
            raise BadInput(outcome.line)
        if outcome.kind == "other":
            self.other[sent.chunk.folder.name] = outcome.line
        elif outcome.kind == "lacks" and not self.cluster.asked:
            self.cluster.give(outcome.lacks)
            self._send(call, sent.chunk, out, sent)
        elif outcome.kind == "done" and not call.left(sent.chunk.laid.runs):
            store.pool.drop(sent.chunk)

    def _end(self, call: Call, count: Count, out: dict[str, _Out]) -> None:
        """Everybody stops, saves and comes back; asked a second time, in the middle of a round."""
        while out:
            self.cluster.asked = max(1, min(2, stopping.asked()))
            for event in self.cluster.poll(POLL_SECONDS):
                for _ in self._heard(call, count, event, out):
                    pass


def _beginnings(call: Call, texts: list[str], rounds: int) -> list[str]:
    """Shorter runs in the store that these go on from."""
    if not rounds:
        return []
    kin = call.store.kin()
    return [kin[Setting.from_json(text).kin][rounds] for text in texts]
