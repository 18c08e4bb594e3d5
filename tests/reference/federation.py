"""The clients of one run: whose turn it is, legs that are lost, and the bytes that cross."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from baton.failures import failing, policy
from reference.given import Given, Places
from reference.legs import Leg, Pushes, minibatches
from reference.problems import Array, Model

SERVER, CLIENT, BOTH = "server", "client", "both"  # who holds a model, and so hands it over


class Fate(NamedTuple):
    """How a leg goes."""

    client: int  # who answers; who was meant, where nobody does
    tried: int  # hand-overs
    came: bool


class Answer(NamedTuple):
    """What comes back of a leg."""

    client: int
    x: Array  # trained; what was handed over, where nothing came back
    came: bool
    samples: int  # that the client holds
    steps: int  # that were taken
    reach: float  # how far a constant direction moves x in these steps, in lr
    square: Array  # of a look: the mean square of the gradients


class Cut(NamedTuple):
    """A model in split form."""

    client: Array  # mask of the client's side over the parameters
    sample_up: int  # bytes of a sample in a step
    sample_down: int
    joint: bool  # one norm over both sides: a number each way and step where gradients are clipped
    passes: int  # a leg is at most so many passes over a client's samples; 0: any


class Federation:
    """The clients of one run, as a method sees them."""

    def __init__(self, given: Given, model: Model, cut: Cut | None = None) -> None:
        self.given, self.s, self.cut = given, given.setting, cut
        sides = [cut.client, ~cut.client] if cut and not cut.joint else None
        self.legs = Leg(self.s, model, given.train, sides)
        self.failing, self.policy = failing(self.s.failures), policy(self.s.on_failure)
        self.item = 8 if self.s.dtype == "float64" else 4
        self.up = self.down = self.peer = 0  # bytes
        self.holder = SERVER  # of the model that the next round begins with
        self.drawn = given.order(0)  # whom the schedule draws for this round
        self.sends = True  # whether anything crosses

    @property
    def clients(self) -> int:
        """M."""
        return self.s.clients

    def begin(self, number: int, order: list[int]) -> None:
        """Begin a round."""
        self.number, self.order = number, order
        self.lr = self.s.lr * self.s.factor(number)
        self.visits: Counter[int] = Counter()
        self.fates = self._fates()

    # --- who answers

    @property
    def aborted(self) -> bool:
        """Whether the round goes back to its beginning."""
        return self.policy.abort and not all(fate.came for fate in self.fates)

    def _fates(self) -> list[Fate]:
        """How the leg at each place of the order goes.

        reroute: others that have no turn in this round, in random order; each is asked for one leg at most.
        """
        turns, more = len(self.order), self.policy.tries
        if self.failing.share == 0:
            return [Fate(client, 1, True) for client in self.order]
        if not self.policy.elsewhere:
            asked = [[client] * (1 + more) for client in self.order]
        else:
            drawn = self.given.stand_ins(self.number, min(self.clients, turns * (1 + more)))
            free = [client for client in drawn if client not in self.order]
            asked = [[client, *free[place::turns][:more]] for place, client in enumerate(self.order)]
        return [self._fate(each, self.order[:place].count(each[0])) for place, each in enumerate(asked)]

    def _fate(self, asked: list[int], again: int) -> Fate:
        for attempt, client in enumerate(asked):
            if not self._lost(client, attempt, again):
                return Fate(client, attempt + 1, True)
        return Fate(asked[0], len(asked), False)

    def _lost(self, client: int, attempt: int, again: int) -> bool:
        if self.failing.who and client not in self.failing.who:
            return False
        return self.given.coin(self.number, client, attempt, again) < self.failing.share

    # --- legs

    def train(
        self,
        x: Array,
        place: int,
        pushes: Pushes | Callable[[int], Pushes] = Pushes(),  # noqa: B008
        rate: float = 1.0,
        by: str = SERVER,
        up: bool = True,
        extra: int = 0,
        numbers: int = 0,
    ) -> Answer:
        """Run the leg at a place of the order from x.

        pushes: of the client that trains. by: who hands the model over. up: whether the trained model goes to the
        server. extra: models' worth of numbers that the server sends along; numbers: single ones.
        """
        fate = self.fates[place]
        batches = self._visit(fate.client)
        more = pushes(fate.client) if callable(pushes) else pushes
        self._book(fate, by, up, extra, numbers)
        self._book_steps(fate, batches)
        held = len(self.given.rows[fate.client])
        end = self.legs.steps(x, batches, self.lr * rate, more) if fate.came else x
        return Answer(fate.client, end, fate.came, held, len(batches), self.legs.reach(len(batches)), np.zeros(0))

    def look(self, x: Array, place: int, extra: int = 0) -> Answer:
        """Visit the client at a place once more: the mean of its minibatch gradients at x, and their mean square."""
        fate = self.fates[place]
        batches = self._visit(fate.client)
        self._book(fate, None, True, extra)
        found = [self.legs.gradient(x, rows) for rows in batches] if fate.came else []
        mean = np.mean(found, 0) if found else np.zeros_like(x)
        square = np.mean(np.square(found), 0) if found else np.zeros_like(x)
        held = len(self.given.rows[fate.client])
        return Answer(fate.client, mean, fate.came, held, len(batches), len(batches), square)

    def pool(self, x: Array) -> Array:
        """Run one leg on everybody's samples: S K steps, or E passes."""
        rows = np.sort(np.concatenate(self.given.rows))
        drawn = self.given.pooled_places(self.number)
        steps = self.s.participants * self.s.local_steps
        return self.legs.steps(x, minibatches(self.s, rows, drawn, steps=steps), self.lr, Pushes())

    def _visit(self, client: int) -> list[Places]:
        """Return the minibatches of the next visit to a client in this round."""
        rows, visit = self.given.rows[client], self.visits[client]
        self.visits[client] += 1
        if len(rows) == 0:
            return []
        drawn = self.given.places(self.number, client, visit)
        return minibatches(self.s, rows, drawn, self.cut.passes if self.cut else 0)

    # --- bytes

    @property
    def model_bytes(self) -> int:
        """What a client is handed: the model, or its side of it."""
        return self.item * int(self.cut.client.sum() if self.cut else sum(map(np.prod, self.given.leaves.values())))

    def _book(self, fate: Fate, by: str | None, up: bool, extra: int, numbers: int = 0) -> None:
        if not self.sends:
            return
        self.down += fate.tried * (self.model_bytes * (extra + (by == SERVER)) + self.item * numbers)
        self.peer += fate.tried * self.model_bytes * (by in (CLIENT, BOTH))
        self.up += fate.came * self.model_bytes * up

    def _book_steps(self, fate: Fate, batches: list[Places]) -> None:
        if self.cut is None or not fate.came:
            return
        samples = sum(map(len, batches))
        norms = self.item * len(batches) * (self.cut.joint and self.s.clip > 0)
        self.up += samples * self.cut.sample_up + norms
        self.down += samples * self.cut.sample_down + norms

    def fetch(self) -> None:
        """Book the round's first model on its way to the server, which computes with it, if only a client has it."""
        self.up += self.model_bytes * (self.holder == CLIENT)
