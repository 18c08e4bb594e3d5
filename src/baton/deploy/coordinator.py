"""The server of one run over real sites: from its last checkpoint, or from the start, to its end in the store.

It may be killed at any moment, and begun again by the same call: a checkpoint holds every round that is done, and the
legs of the one under way lie beside it.
"""

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

import baton
from baton.deploy import measure
from baton.deploy.answers import Answers, Outcome
from baton.deploy.books import Account, Books
from baton.deploy.carrier import Carrier, Refuses, Task, Unbelieved, passing
from baton.deploy.checks import doubt
from baton.deploy.fits import fits
from baton.deploy.like import like
from baton.deploy.messages import Here, Look
from baton.deploy.rules import Desk, Place, Rules
from baton.deploy.transport import Lost, Transport
from baton.deploy.wire import packed
from baton.errors import BadInput
from baton.lanes import finite
from baton.seam import State
from baton.setting import Setting
from baton.sites.server import Server
from baton.sites.visit import Answer, Order
from baton.store import Chunk, History, Laid, Snapshot, Store
from baton.store.claims import Claim
from baton.store.sites import Measured

TOLD = "each site on its own test rows, where its policy tells"
DEVICE = "sites"  # what a chunk says where others say cpu or cuda


class At(NamedTuple):
    """All that a run goes on from."""

    snapshot: Snapshot
    counted: dict[int, str]  # client -> its last leg that counted: what it keeps is what it kept then
    account: Account


class Turn:
    """The round under way."""

    def __init__(self, number: int, counted: dict[int, str]) -> None:
        self.number, self.counted = number, dict(counted)
        self.asked = 0  # orders so far
        self.legs: list[list[Outcome]] = []  # of each leg, how its tries went
        self.open: list[int] = []  # the legs of the last call, in its order
        self.instead: dict[int, int] = {}  # whose place in the round another one takes
        self.visited: set[int] = set()


class Coordinator:
    """Of one run. Its store is that of any other run."""

    def __init__(
        self, setting: Setting, rules: Rules, transport: Transport, store: Store, desk: Desk | None = None
    ) -> None:
        if len(rules.sites) != setting.clients:
            raise BadInput(f"sites: {len(rules.sites)} of them for clients = {setting.clients}; as many is right")
        fits(setting)
        self.setting, self.rules, self.store, self.desk = setting, rules, store, desk or Desk()
        self.server = Server(setting, like(setting), self._post)
        self.carrier = Carrier(setting.to_json(), rules, transport, self.desk)
        self.books = Books(self.server)
        self.answers: Answers
        self.turn = Turn(0, {})
        self.account = Account()
        self.asked = measure.asked(setting, self.server.like)
        self.rows: dict[int, int] = {}  # test rows of each client that told
        self.patience = 0.0  # seconds that another process has to let go of the run

    # --- the run

    def run(self) -> None:
        """To its end; where it is complete, nothing."""
        run, pool = self.setting.run_id, self.store.pool
        if self.store.complete(run):
            return
        with pool.workers.working() as worker:
            chunk = self._chunk(worker.token)
            end = time.monotonic() + self.patience
            while (claim := pool.take(chunk, worker)) is None and time.monotonic() < end:
                time.sleep(0.5)
            if claim is None:
                raise BadInput(f"run: {run} is being trained by another process on {str(self.store.root)!r}")
            try:
                self._rounds(chunk, claim, worker.token)
            finally:
                claim.release()

    def _chunk(self, token: str) -> Chunk:
        found = self.store.pool.in_flight().get(self.setting.run_id)
        if found is not None:
            return found[0]
        text = self.setting.to_json()
        return self.store.pool.lay(Laid([self.setting.run_id], [text], DEVICE, "fp32", 1.0, 0, 0, token, {}))

    def _rounds(self, chunk: Chunk, claim: Claim, token: str) -> None:
        self.answers, pool, s = Answers(chunk.folder), self.store.pool, self.setting
        self._gather()
        at = self._begin(chunk)
        self.answers.forget(at.snapshot.round)
        while at.snapshot.round < s.rounds and int(at.snapshot.diverged) < 0:
            at = self._round(at)
            if not claim.holds():
                raise BadInput(f"run: {s.run_id} was taken over by another process")
            pool.save(claim, at.snapshot, _noted(at, self.rows))
            self.answers.forget(at.snapshot.round)
        how = {"way": "real sites", "sites": str(s.clients), "baton": baton.__version__, "torch": torch.__version__}
        self.store.finish([s], at.snapshot, "fp32", [at.account.mean_way()], how, token, self._measured_sites())
        pool.drop(chunk)

    def _gather(self) -> None:
        """Who is there, and would take part; a site that says no ends the run before it begins."""
        names, seconds = self.rules.sites, self.rules.leg
        there = self.carrier.transport.ping(names, self.rules.ping)
        self.carrier.missing = set(names) - there
        frames = dict.fromkeys(sorted(there), packed(Look(self.setting.to_json()), seconds))
        for site, got in self.carrier.transport.broadcast(frames, seconds):
            if isinstance(got, Lost) or passing(got):
                self.carrier.missing.add(site)
                continue
            try:
                said = self.carrier.reply(got)
            except Refuses as error:
                raise BadInput(f"site {site}: {error}") from None
            except Unbelieved:  # as where it does not answer: its legs are asked for, and lost
                self.carrier.missing.add(site)
                continue
            if not isinstance(said, Here) or said.version != baton.__version__:
                raise BadInput(f"site {site}: it has another version of Baton; {baton.__version__} is right")
            if said.samples >= 0:
                self.carrier.samples[site] = said.samples

    def _begin(self, chunk: Chunk) -> At:
        kept = self.store.pool.load(chunk, torch.device("cpu"))
        if kept is not None:
            at, self.rows = _read(*kept)
            return at
        state = self.server.start()
        first = Snapshot(0, state, {}, torch.full((1,), -1), History())
        order = self.server.schedule.draw(torch.tensor([self.setting.seed]), torch.tensor([0]), *self._counts())
        return At(self._measured(first, order[0].tolist(), Account()), {}, Account())

    def _counts(self) -> tuple[int, int]:
        return self.setting.clients, self.setting.participants

    def _round(self, at: At) -> At:
        """One more; one that was aborted leaves everything as it was."""
        snapshot, began = at.snapshot, time.monotonic()
        self.account = at.account
        self.turn = turn = Turn(snapshot.round, at.counted)
        state = self.server.round(snapshot.round, snapshot.state)
        taken_back = state is snapshot.state
        state = State({name: state.model[name] for name in snapshot.state.model}, state.server)
        sound = bool(finite(state.model)) and (not state.server or bool(finite(state.server)))
        account = self.books.then(at.account, snapshot.round, turn.legs, time.monotonic() - began)
        number = snapshot.round + 1
        new = snapshot._replace(round=number, state=state)
        if not sound:
            new = new._replace(state=snapshot.state, diverged=torch.full((1,), number))
        assert self.server.drawn is not None
        return At(
            self._measured(new, self.server.drawn[0].tolist(), account),
            at.counted if taken_back else turn.counted,
            account,
        )

    def _measured(self, at: Snapshot, order: Sequence[int], account: Account) -> Snapshot:
        """With what the model costs at the sites, where it is the time for it."""
        s = self.setting
        if at.round % s.eval_every and at.round != s.rounds:
            return at
        found = measure.measured(self.carrier, s, at, order, self.server.like, self.rows)
        if self.carrier.deserted(self.rules.sites):
            self.desk.deserted()
        self.rows = found.rows | self.rows
        for line in found.says:
            self._tell([], says=line)
        return at._replace(history=at.history.then(at.round, found.values | measure.columns(account.columns())))

    def _measured_sites(self) -> Measured | None:
        """The sites whose own metrics were asked for; None: none were."""
        names = self.rules.sites
        rows = np.array([[self.rows.get(client, 0) for client in range(len(names))]])
        return Measured(names, rows, TOLD) if self.asked else None

    # --- legs

    def _post(self, orders: Sequence[Order]) -> list[Answer | None]:
        """The legs of one call, or those of it that are tried again; what is decided already is not asked for."""
        turn = self.turn
        if orders[0].attempt == 0:
            turn.open = list(range(len(turn.legs), len(turn.legs) + len(orders)))
            turn.legs += [[] for _ in orders]
        found: list[Outcome | None] = [None] * len(orders)
        left: dict[int, Task] = {}
        for i, order in enumerate(orders):
            leg = f"{turn.number}.{turn.asked}"
            turn.asked += 1
            client = turn.instead.get(order.client, order.client)
            known = self.answers.get(leg)
            if known is not None and (known.answer is None or not doubt(known.answer, order, self.rules.norm)):
                found[i] = self._decided(leg, order, known)
            else:
                left[i] = Task(leg, "", order._replace(client=client))
        for wave in _waves(left):
            self._carry(wave, orders, found)
        outcomes = [each for each in found if each is not None]
        tried = list(zip(turn.open, outcomes, strict=False))  # for the last ones there may be nobody left to ask
        for place, outcome in tried:
            turn.legs[place].append(outcome)
        turn.open = [place for place, outcome in tried if outcome.answer is None]
        return [outcome.answer for outcome in outcomes]

    def _carry(self, wave: dict[int, Task], orders: Sequence[Order], found: list[Outcome | None]) -> None:
        """Legs at different sites."""
        self.desk.check(self.carrier.missing)
        places = list(wave)
        tasks = [wave[i]._replace(base=self.turn.counted.get(wave[i].order.client, "")) for i in places]
        self._tell(tasks)
        if self.server.algorithm.split is not None:
            done = ((j, self.carrier.halves(self.server, task)) for j, task in enumerate(tasks))
        else:
            done = self.carrier.legs(tasks)  # type: ignore[assignment]
        for j, outcome in done:
            task, order = tasks[j], orders[places[j]]
            if outcome.answer is None and self.carrier.deserted([self.rules.sites[outcome.client]]):
                self.desk.deserted()
            if outcome.answer is None and self.rules.later and len(orders) == 1:
                outcome = self._instead(task, outcome)
            self.answers.put(task.leg, outcome)
            found[places[j]] = self._decided(task.leg, order, outcome)
            self._tell([], outcome)

    def _instead(self, task: Task, lost: Outcome) -> Outcome:
        """A leg of a chain at another site of the round that has not been visited; the lost one takes its place."""
        turn, drawn = self.turn, self.server.drawn
        assert drawn is not None
        for other in drawn[0].tolist():
            free = other not in turn.visited and other not in turn.instead and other != task.order.client
            if free and self.rules.sites[other] not in self.carrier.missing:
                mine = Task(task.leg, turn.counted.get(other, ""), task.order._replace(client=other))
                split = self.server.algorithm.split is not None
                outcome = self.carrier.halves(self.server, mine) if split else next(self.carrier.legs([mine]))[1]
                if outcome.answer is not None:
                    return outcome
        return lost

    def _decided(self, leg: str, order: Order, outcome: Outcome) -> Outcome:
        """A leg, once it is known how it went: it counts from now on, and once."""
        turn = self.turn
        if outcome.answer is not None:
            turn.counted[outcome.client] = leg
            turn.visited.add(outcome.client)
            asked = turn.instead.get(order.client, order.client)
            if outcome.client != asked:
                turn.instead[outcome.client] = asked
        return outcome

    def _tell(self, tasks: Sequence[Task], last: Outcome | None = None, says: str = "") -> None:
        """Where the run stands; says: what went wrong beside a leg."""
        turn, s, missing = self.turn, self.setting, self.carrier.missing
        every = [each for tries in turn.legs for each in tries]
        lost = int(self.account.real[-1]) + sum(each.answer is None for each in every)
        names = self.rules.sites
        self.desk.at(
            Place(
                turn.number,
                s.rounds,
                sum(bool(tries) for tries in turn.legs) + (last is not None),
                s.participants,
                ", ".join(names[task.order.client] for task in tasks),
                tuple(name for name in names if name not in missing),
                tuple(name for name in names if name in missing),
                last.seconds if last else 0.0,
                lost + (last is not None and last.answer is None),
                f"{names[last.client]}: {last.why}" if last and last.why else says,
                s.run_id,
            )
        )


def possible(setting: Setting) -> None:
    """Refuse a run that no server could carry out, before anybody is asked to take part: its round is counted once."""
    Books(Server(setting, like(setting), lambda orders: [None for _ in orders]))


def _waves(tasks: dict[int, Task]) -> list[dict[int, Task]]:
    """Legs at different sites go together; two at one site, one after the other."""
    waves: list[dict[int, Task]] = []
    count: defaultdict[int, int] = defaultdict(int)
    for i, task in tasks.items():
        number = count[task.order.client]
        count[task.order.client] += 1
        if number == len(waves):
            waves.append({})
        waves[number][i] = task
    return waves


def _noted(at: At, rows: dict[int, int]) -> dict[str, str]:
    return {"deploy": json.dumps({"counted": at.counted, "account": at.account, "rows": rows})}


def _read(snapshot: Snapshot, how: dict[str, str]) -> tuple[At, dict[int, int]]:
    """(what the run goes on from, test rows of each client that told)."""
    table = json.loads(how["deploy"])
    rounds, *sums = table["account"]
    counted = {int(client): leg for client, leg in table["counted"].items()}
    rows = {int(client): count for client, count in table.get("rows", {}).items()}
    return At(snapshot, counted, Account(rounds, *(tuple(each) for each in sums))), rows
