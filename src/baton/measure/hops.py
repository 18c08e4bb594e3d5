"""Every site's metric after every hand-over of a round: what a turn gains its own site, and what later ones cost it.

Not a part of runs: draws are pure, so that rounds of a run are simply trained again, with sites that look on.
"""

from collections.abc import Sequence
from math import isnan
from typing import Any

import torch

from baton import algorithms, datasets, metrics
from baton.constants import Tell, silent
from baton.errors import BadInput
from baton.lanes import Params
from baton.measure import replay
from baton.measure.forgetting import Hops, Row
from baton.metrics.base import Task
from baton.seam import Cohort, Reply
from baton.setting import Setting
from baton.simulate.engine import Program, Snapshot
from baton.simulate.kept import Kept, laid_out
from baton.simulate.simulation import Simulation
from baton.store.columns import SITE


class Watching(Simulation):
    """Sites that are asked after each leg: how every one of them fares with the model."""

    def __init__(self, program: Program, at: Snapshot, label: str) -> None:
        now = program.now(at.round, program.rate(at.round), program.algorithm.kind(at.round))
        order = program.order(at.round)
        if program.algorithm.order is not None:
            order = program.algorithm.order(at.state, order, now)
        tables = laid_out({n: leaf.clone() for n, leaf in at.clients.items()}, None)
        super().__init__(program, now, order, kept=Kept(tables))
        self.label, self.visitor, self.given, self.made = label, list[int](), list[Row](), list[Row]()
        self.chain = True
        self._last: tuple[Params, Row] | None = None  # what was handed on last, and how sites fare with it

    def train(self, x: Params, clients: Cohort, *, still: bool = False, **more: Any) -> Reply:
        """As ever; then every site is measured. A leg that stands still hands nothing on."""
        reply = super().train(x, clients, still=still, **more)
        if still:
            return reply
        ranks, side = self.program.ranks, clients.index.dim() == 2
        self.chain = self.chain and not side
        for leg, client in enumerate(clients.index.reshape(-1).tolist()):  # one lane
            given = {n: leaf[:, leg] if leaf.dim() > ranks[n] else leaf for n, leaf in x.items()}
            made = {n: leaf[:, leg] for n, leaf in reply.x.items()} if side else reply.x
            self.visitor.append(client)
            self.given.append(self.fares(given))
            self.made.append(self.fares(made))
        return reply

    def fares(self, x: Params) -> Row:
        """The metric of every site [k]."""
        if self._last is not None and all(self._last[0][n] is leaf for n, leaf in x.items()):
            return self._last[1]
        whole = {n: leaf.contiguous() for n, leaf in x.items()}
        found = self.program.evaluate.on_test(whole)[SITE + self.label][0].tolist()
        self._last = x, [None if isnan(value) else value for value in found]
        return self._last[1]


def applies(setting: Setting) -> bool:
    """Whether a model goes from site to site, or from them to a server."""
    algorithm = algorithms.build(setting.algorithm)
    return bool(algorithm.sends) and algorithm.personal is None


def measure(setting: Setting, at: Sequence[int], device: torch.device, tell: Tell = silent) -> list[Hops]:
    """Rounds `at` (0 is the first) of the setting's run, which is trained up to there; to where it diverges."""
    replay.check(setting, at)
    spec = _metric(setting)
    program = Program([replay.up_to(setting, at, metrics=spec)], device)
    asked, found = program.evaluate.asked, []
    if asked is None or asked.sites is None:
        raise BadInput("measure: this data set does not say whose its test rows are; hops need sites with rows")
    if not applies(setting):
        raise BadInput(f"measure: with {program.called!r} no model is handed on; 'sequential' or 'parallel' is right")
    label, where = metrics.label(spec), asked.sites
    for snapshot in replay.before(program, at, "hops", tell):
        sites = Watching(program, snapshot, label)
        begin = sites.fares(snapshot.state.model)
        state = program.algorithm.round(snapshot.state, Cohort.whole(sites.order), sites)
        ends = list(where.name), where.client.tolist(), sites.chain, sites.visitor, sites.given, sites.made
        best = asked.metrics[label].best or "max"
        found.append(Hops(snapshot.round, label, best, *ends, begin, sites.fares(state.model)))
    return found


def some(rounds: int) -> list[int]:
    """Rounds that are looked at where nobody says which: 0, 1, 2, 5, 10, ... and the last."""
    early = [r for r in (0, *(n * 10**e for e in range(10) for n in (1, 2, 5))) if r < rounds]
    return sorted({*early, rounds - 1})


def _metric(setting: Setting) -> str:
    """The first that the run measures and that says which end is better; without one, accuracy or the squared error."""
    data = datasets.load(setting.dataset, setting.clients)
    task = Task(data.classes, data.loss)
    every = [spec for spec in metrics.wanted(setting.metrics, data) if spec != metrics.PER_CLASS]
    own = [spec for spec in every if metrics.build_one(spec, task).best]
    return own[0] if own else "accuracy" if data.classes else "mse"
