"""Sites at a distance: a round's legs as orders, carried to the clients by whatever can carry them."""

from collections import Counter
from collections.abc import Callable, Container, Sequence

import torch
from torch import Tensor

from baton import failures, rng
from baton.clients import reached
from baton.errors import BadInput
from baton.failures import Policy
from baton.lanes import Params
from baton.seam import Cohort, Facts, Now, Reply
from baton.setting import Setting
from baton.sites.visit import Answer, Order

Post = Callable[[Sequence[Order]], Sequence[Answer | None]]  # all at once; None: did not come back
Sides = Callable[[Params], tuple[Params, Params]]
NO_POOL = "algorithm: it pools all samples in one place, and sites keep theirs; another algorithm is right"


class Remote:
    """The clients of one round of one run. Leaves have a lane axis of one, as an algorithm expects them."""

    def __init__(
        self,
        setting: Setting,
        now: Now,
        order: Tensor,
        post: Post,
        policy: Policy,
        ranks: dict[str, int],
        sides: Sides = lambda x: (x, {}),
        void: Container[int] = (),
    ) -> None:
        """order [1, S]; ranks: of a model's leaves [1, ...]; sides: (what clients hold, what the server holds).

        void: clients whose last round was aborted.
        """
        self.setting, self.now, self.order, self.post, self.policy = setting, now, order, post, policy
        self.ranks, self.sides, self.void = ranks, sides, void
        self.visits: Counter[int] = Counter()
        self.answered: set[int] = set()  # who did, in this round
        self.aborted = False  # whether the round goes back to its beginning

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
        """One order a leg; a leg that does not come back is tried again as the policy says."""
        index = clients.index.view(1, -1)
        seed = torch.tensor([self.setting.seed])
        asked = failures.tries(self.policy, seed, self.now.round, index, self.order, self.now.clients, clients.places)[
            0
        ].tolist()
        whom, before = [own[0] for own in asked], self.visits.copy()
        left_of = [[own[0] for own in asked[:i]] for i in range(len(asked))]
        models, anchors, shifts, forces = (self._legs(given, len(asked)) for given in (x, anchor, shift, stiff))
        lr = float((self.now.lr if rate is None else self.now.lr * rate)[0])
        answers: list[Answer | None] = [None] * len(asked)
        for attempt in range(1 + self.policy.tries):
            left = [i for i, own in enumerate(asked) if answers[i] is None and own[attempt] != failures.NOBODY]
            orders = []
            for i in left:
                whom[i] = asked[i][attempt]
                force = None if pull is None else float(pull[0])
                again = before[whom[i]] + left_of[i].count(whom[i])
                order = self._order(models[i] or {}, whom[i], again, force, anchors[i], shifts[i], sent)
                order = order._replace(lr=lr, still=still, stiff=forces[i])
                orders.append(order._replace(attempt=attempt, void=whom[i] in self.void))
            for i, answer in zip(left, self.post(orders) if orders else [], strict=True):
                answers[i] = answer
                if answer is not None:
                    self.answered.add(whom[i])
        who = [own[0] if answer is None else at for own, at, answer in zip(asked, whom, answers, strict=True)]
        self.visits.update(who)
        self.aborted |= self.policy.abort and None in answers
        return self._reply(models, answers, torch.tensor(who).view(clients.index.shape), still)

    def pool(self, x: Params) -> Reply:  # noqa: ARG002
        """Refused when a server is made for such an algorithm: sites keep their samples."""
        raise BadInput(NO_POOL)

    def home(self, x: Params) -> Params:
        """The server writes all orders: what it sends, it has."""
        return x

    def draw(self, shape: Sequence[int], purpose: str, *, normal: bool = False) -> Tensor:
        """At the server, keyed by the run's seed."""
        seed = torch.tensor([self.setting.seed])
        return rng.named(seed, self.now.round, shape, purpose, self.now.lr.dtype, gaussian=normal)

    def _order(
        self,
        model: Params,
        client: int,
        visit: int,
        pull: float | None,
        anchor: Params | None,
        shift: Params | None,
        sent: Params | None,
    ) -> Order:
        s, told = self.setting, {name: leaf[0] for name, leaf in (sent or {}).items()}
        step = float(self.now.lr[0]), s.clip, s.weight_decay, s.momentum, pull, anchor, shift
        made = Order(model, client, s.seed, int(self.now.round), visit, s.local_steps, s.batch_size, *step, told)
        return made._replace(epochs=s.epochs)

    def _legs(self, x: Params | None, count: int) -> list[Params | None]:
        """One model a leg, without lane axis."""
        if x is None:
            return [None] * count
        each = {
            n: leaf[0] if leaf.dim() > self.ranks[n] else leaf.expand(count, *leaf.shape[1:]) for n, leaf in x.items()
        }
        return [{n: leaf[i] for n, leaf in each.items()} for i in range(count)]

    def _reply(
        self, given: Sequence[Params | None], answers: Sequence[Answer | None], who: Tensor, still: bool
    ) -> Reply:
        shape = who.shape
        models = [old or {} if answer is None else answer.model for old, answer in zip(given, answers, strict=True)]
        x = {n: torch.stack([model[n] for model in models]).view(*shape, *leaf.shape) for n, leaf in models[0].items()}
        facts = [(0, 0) if answer is None else (answer.samples, answer.steps) for answer in answers]
        samples, steps = torch.tensor(facts).T.reshape(2, *shape).unbind(0)
        kind = self.now.lr.dtype
        moving = self.setting.momentum and not still
        momentum = torch.tensor([self.setting.momentum], dtype=kind) if moving else None
        came = torch.tensor([answer is not None for answer in answers]).view(shape)
        reach = reached(steps.to(kind), momentum)
        sure = failures.failing(self.setting.failures).share == 0 and bool(came.all())
        alike = self.setting.lr_schedule == "constant" and not self.setting.epochs
        even = sure and alike and bool((steps == self.setting.local_steps).all())
        square = None
        if still:
            none = {n: torch.zeros_like(leaf) for n, leaf in models[0].items()}
            every = [none if answer is None else answer.square for answer in answers]
            square = {n: torch.stack([one[n] for one in every]).view(*shape, *none[n].shape) for n in none}
        return Reply(x, lambda: Facts(samples, steps, reach), None if sure else came, even, square, who)
