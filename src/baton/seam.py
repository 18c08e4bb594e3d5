"""The seam between an algorithm and those who carry it out: what a round may know, ask of its sites, and get back.

A simulation, a ledger that only counts and real sites are three who can be asked; a round cannot tell them apart.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from baton.lanes import Params


class Now(NamedTuple):
    """What a round may know beside its state."""

    clients: int  # M
    participants: int  # S
    local_steps: int  # K; 0 where a leg is E passes over its client's samples: Reply.steps tells how many those took
    rounds: int  # R
    round: int | Tensor  # its number, from 0; a tensor where rounds are recorded and replayed
    lr: Tensor  # [L] the learning rate of this round
    kind: Hashable = None  # what Algorithm.kind says of its number
    drawn: Tensor | None = None  # [L, S] whom the schedule draws for this round, for Algorithm.server; else None


class State(NamedTuple):
    """Two of the three drawers: what every client is handed, and what the server keeps. Every leaf [L, ...].

    The third, what each client keeps, is the sites' own: a round never sees the whole of it.
    """

    model: Params
    server: Params = {}  # noqa: RUF012


class Cohort:
    """Some of a round's participants, in their order: one a lane [L], or several side by side [L, C]."""

    def __init__(self, index: Tensor, places: tuple[int, ...] | None = None) -> None:
        """places: where they stand in the round's order; None: clients that the algorithm chose by itself."""
        self.index, self.places = index, places

    @classmethod
    def whole(cls, order: Tensor) -> "Cohort":
        """All participants of a round: order [L, S]."""
        return cls(order, tuple(range(order.shape[1])))

    def __len__(self) -> int:
        return self.index.shape[1]

    def __iter__(self) -> Iterator["Cohort"]:
        """One after another: index [L] each."""
        for column, client in enumerate(self.index.unbind(1)):
            yield Cohort(client, None if self.places is None else self.places[column : column + 1])

    def __getitem__(self, part: slice) -> "Cohort":
        """Some of them, or all in another order: cohort[:3], cohort[::-1]."""
        first, stop, step = part.indices(len(self))
        columns = range(first, stop, step)
        backwards = step < 0 and len(columns) > 0  # torch cuts forwards only, and a list would have to go to the device
        cut = slice(columns[-1], columns[0] + 1, -step) if backwards else slice(first, max(first, stop), abs(step))
        index = self.index[:, cut].flip(1) if backwards else self.index[:, cut]
        return Cohort(index, None if self.places is None else tuple(self.places[c] for c in columns))

    def chains(self, count: int) -> list["Cohort"]:
        """Cut into chains, side by side: the first of every chain, the second of every chain, ...

        Where they cannot be of equal length the first ones are longer by one, and are what is left at the end.
        """
        length, longer = divmod(len(self), count)
        if not longer:
            return [self[start::length] for start in range(length)]
        cut = longer * (length + 1)
        ahead, behind = self[:cut].chains(longer), self[cut:].chains(count - longer)
        return [*(one.beside(two) for one, two in zip(ahead, behind, strict=False)), ahead[-1]]

    def beside(self, other: "Cohort") -> "Cohort":
        """These, then others."""
        known = None if self.places is None or other.places is None else (*self.places, *other.places)
        return Cohort(torch.cat([self.index, other.index], 1), known)


class Facts(NamedTuple):
    """What belongs to trained models."""

    samples: Tensor  # [L] or [L, C] int64: held by the client
    steps: Tensor  # taken: K, or tau_m where that is less
    reach: Tensor  # how far a constant direction d moves a model, in lr d: the steps; more with momentum


class Reply:
    """What came back of some legs: the models, and what belongs to them."""

    def __init__(
        self,
        x: Params,
        facts: Callable[[], Facts],
        came: Tensor | None = None,
        even: bool = False,
        square: Params | None = None,
        who: Tensor | None = None,
    ) -> None:
        """x: trained; where a leg did not come back, what it was given. came: None: all did. even: all took K steps.

        square: of legs that stood still, the mean square of their gradients; 0 where a leg did not come back. who: the
        clients that trained, where that may be others than were asked; where a leg did not come back, who was asked.
        """
        self.x, self._facts, self.came, self.even, self.square, self._who = x, facts, came, even, square, who

    def who(self, asked: Cohort) -> Tensor:
        """The client of each leg: whom it was meant for, or the one in its place."""
        return asked.index if self._who is None else self._who

    @cached_property
    def facts(self) -> Facts:
        """Looked up when somebody asks."""
        return self._facts()

    @property
    def samples(self) -> Tensor:
        """Held by each client."""
        return self.facts.samples

    @property
    def steps(self) -> Tensor:
        """Taken in each leg."""
        return self.facts.steps

    @property
    def reach(self) -> Tensor:
        """x - end = lr reach d, where d is a leg's mean direction."""
        return self.facts.reach


class Sites(Protocol):
    """The clients as a round sees them."""

    now: Now

    def train(
        self,
        x: Params,
        clients: Cohort,
        *,
        pull: Tensor | None = None,
        anchor: Params | None = None,
        shift: Params | None = None,
        sent: Params | None = None,
        rate: Tensor | None = None,
        still: bool = False,
        stiff: Params | None = None,
    ) -> Reply:
        """One leg at each of these clients: x -= lr (clip(g) + decay x + pull (x - anchor) + shift), K times.

        x: one model a lane [L, ...], or one a leg [L, C, ...]; what comes back has the axes of clients.index. pull [L];
        anchor and shift: as x, and constant during the leg; an anchor that is not given is where the leg starts. sent
        [L, ...]: what the clients' own part of the algorithm (Local) is told. rate [L]: a factor of these legs' lr.
        still: all K gradients are taken where the leg starts, x - lr (their sum) comes back, without momentum, and
        Reply.square. stiff: as shift; a pull of its own at each parameter, for algorithms that say they are elastic.
        """

    def pool(self, x: Params) -> Reply:
        """One leg on everybody's samples, as if they lay in one place: S K steps, or E passes over all of them.

        x [L, ...]; client 0's draws. Only where Algorithm.pools says so, and sites that are real cannot.
        """

    def home(self, x: Params) -> Params:
        """A model that a client holds, brought to the server before it goes on: the same numbers, another way."""

    def draw(self, shape: Sequence[int], purpose: str, *, normal: bool = False) -> Tensor:
        """Return random numbers [L, *shape] of this round, uniform on [0, 1) or normal; one stream a lane.

        They depend on the run's seed, the round, the purpose (a word) and their place in the shape, and on nothing
        else: the same lane draws the same numbers alone, among others, and over real sites.
        """

    def sides(self, x: Params) -> tuple[Params, Params]:
        """(what clients hold of a model, what the server holds); the second is empty where no model is cut."""


class Leg(NamedTuple):
    """One leg, for what a client does at its end. Leaves [L, C, ...] or what broadcasts to that."""

    start: Params
    end: Params
    direction: Params  # the mean of what moved it, but for its shift: (start - end) / (lr reach) - shift
    reach: Tensor  # [L, C]
    lr: Tensor  # [L, C]


class Local(NamedTuple):
    """What a client does around its steps, and keeps from visit to visit. Leaves [L, C, ...]; `sent` broadcasts.

    What is kept is handed over as a copy: these functions may write over it. What begin wrote over, end does not find.
    """

    init: Callable[[Params], Params]  # the first model [L, ...] -> what every client keeps at first [L, ...]
    begin: Callable[[Params, Params], Params]  # (kept, sent) -> the leg's shift
    end: Callable[[Params, Params, Leg], Params]  # (kept, sent, leg) -> kept


class Split(NamedTuple):
    """A leg in split form: where the model is cut, and what its two sides do at each step."""

    cut: str  # the layer behind which the server's side begins
    head: str = ""  # the layer behind which the client's begins again: labels stay there (U-shaped)
    clip: str = "joint"  # one norm over both sides, or one a side: per_side
    noise: float = 0.0  # what the client adds to the smashed data, as a share of their size
    passes: int = 0  # tau_m is at most so many passes over the client's samples; 0: tau_m = K, or as epochs say
