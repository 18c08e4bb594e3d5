"""What the server of a run would order: a site holds every order to it before it trains.

The setting says the numbers. What a leg is told beside them (a pull, controls, whether it stands still) is the
algorithm's: one of its rounds is carried out here over sites that train nothing and write down what they are told.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from baton import rng
from baton.algorithms import Algorithm
from baton.errors import BadInput
from baton.lanes import Params
from baton.seam import Cohort, Facts, Now, Reply, State
from baton.sites.remote import NO_POOL
from baton.sites.visit import Order, Own, prepare

LARGEST = 1 << 31  # visits of a round; no run has as many


class Terms(NamedTuple):
    """What a leg is told beside its model and its step."""

    pull: float | None
    anchor: bool
    shift: bool
    sent: frozenset[str]  # names of leaves
    still: bool
    stiff: bool


class Orders:
    """Of one run."""

    def __init__(self, own: Own) -> None:
        self.own = own
        self._terms: dict[Hashable, set[Terms]] = {}  # by the kind of a round

    def fault(self, order: Order) -> str:
        """Return what the run's own server would not order, in words for the site's log; "" if there is nothing."""
        s = self.own.setting
        if not 0 <= order.round < s.rounds:
            return f"round: got {order.round}; expected 0 to {s.rounds - 1}"
        if not 0 <= order.client < s.clients or not 0 <= order.visit < LARGEST:
            return f"client: got {order.client}, visit {order.visit}; expected one of {s.clients}"
        for field in ("seed", "local_steps", "epochs", "batch_size", "clip", "weight_decay", "momentum"):
            if getattr(order, field) != getattr(s, field):
                return f"{field}: got {getattr(order, field)}; expected {getattr(s, field)}"
        most = self._rate(order.round)
        if not 0 <= order.lr <= most:
            return f"lr: got {order.lr}; expected at most {most}"
        if (found := _terms_of(order)) not in (known := self._known(order.round)):
            return f"terms: got {found}; expected {' or '.join(map(str, known))}"
        if order.stiff is not None and not all(bool((leaf >= 0).all()) for leaf in order.stiff.values()):
            return "stiff: got numbers below 0; expected 0 or more"
        return ""

    def rows(self, order: Order) -> int:
        """Return how many different training rows a leg draws."""
        s, held = self.own.setting, len(self.own.data.y)
        if s.sampling == "shuffle":
            return fewest_rows(s.local_steps, s.epochs, s.batch_size, held)
        drawn = prepare(self.own, order).batches
        return len(set(drawn.places[drawn.weight > 0].tolist()))

    def _rate(self, round: int) -> float:
        """Return the learning rate of a round, as the server rounds it."""
        s = self.own.setting
        return float(torch.tensor(s.lr * s.factor(round), dtype=self.own.net.dtype))

    def _known(self, round: int) -> set[Terms]:
        algorithm, s = self.own.algorithm, self.own.setting
        kind = algorithm.kind(round)
        if kind not in self._terms:
            lr = torch.ones(1, dtype=self.own.net.dtype)
            now = Now(s.clients, s.participants, s.local_steps, s.rounds, round, lr, kind)
            small = {name: (1,) * len(shape) for name, shape in self.own.net.sizes().items()}
            self._terms[kind] = _terms_of_round(algorithm, small, now)
        return self._terms[kind]


def fewest_rows(local_steps: int, epochs: int, batch_size: int, held: int) -> int:
    """Return how many different rows a leg draws where it puts none back; where it does, these are the most."""
    return held if epochs else min(held, local_steps * batch_size)


def _terms_of(order: Order) -> Terms:
    given = order.anchor is not None, order.shift is not None
    return Terms(order.pull, *given, frozenset(order.sent), order.still, order.stiff is not None)


class _Listening:
    """Sites that train nothing, and write down what they are told."""

    def __init__(self, now: Now, sizes: dict[str, tuple[int, ...]]) -> None:
        self.now, self.sizes, self.terms = now, sizes, set[Terms]()

    def train(
        self,
        x: Params,
        clients: Cohort,
        *,
        pull: Tensor | None = None,
        anchor: Params | None = None,
        shift: Params | None = None,
        sent: Params | None = None,
        rate: Tensor | None = None,  # noqa: ARG002
        still: bool = False,
        stiff: Params | None = None,
    ) -> Reply:
        """Answer with models of ones."""
        force = None if pull is None else float(pull[0])
        told = frozenset(sent or {})
        self.terms.add(Terms(force, anchor is not None, shift is not None, told, still, stiff is not None))
        shape, kind = clients.index.shape, self.now.lr.dtype
        made = {name: torch.ones(*shape, *self.sizes[name], dtype=kind) for name in x}
        ones = torch.ones(shape, dtype=torch.int64)
        return Reply(made, lambda: Facts(ones, ones, ones.to(kind)), None, True, made if still else None)

    def pool(self, x: Params) -> Reply:  # noqa: ARG002
        """Refuse: a site keeps its rows."""
        raise BadInput(NO_POOL)

    def home(self, x: Params) -> Params:
        """Return it as it is."""
        return x

    def draw(self, shape: Sequence[int], purpose: str, *, normal: bool = False) -> Tensor:
        """Return some numbers: which they are changes no order's terms."""
        seed = torch.zeros(len(self.now.lr), dtype=torch.int64)
        return rng.named(seed, self.now.round, shape, purpose, self.now.lr.dtype, gaussian=normal)

    def sides(self, x: Params) -> tuple[Params, Params]:
        """Return all of it as the client's."""
        return x, {}


def _terms_of_round(algorithm: Algorithm, sizes: dict[str, tuple[int, ...]], now: Now) -> set[Terms]:
    model = {name: torch.ones(1, *shape, dtype=now.lr.dtype) for name, shape in sizes.items()}
    server = algorithm.server(model, now) if algorithm.server else {}
    sites = _Listening(now, sizes)
    algorithm.round(State(model, server), Cohort.whole(torch.arange(now.participants).unsqueeze(0)), sites)
    return sites.terms
