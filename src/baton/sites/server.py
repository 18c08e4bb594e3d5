"""The server of one run whose clients are far away: its rounds, one after another."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from baton import algorithms, failures, schedules
from baton.datasets import Dataset
from baton.errors import BadInput
from baton.lanes import Params
from baton.nn.cut import sides
from baton.seam import Cohort, Now, State
from baton.setting import Setting
from baton.sites.halves import Message, leg
from baton.sites.remote import NO_POOL, Post, Remote
from baton.sites.visit import Answer, Order, net_of

Ask = Callable[[int, Message], object]  # one client, one message: its answer


class Server:
    """Holds no samples: only their shape, which the model is made for."""

    def __init__(
        self,
        setting: Setting,
        like: Dataset,
        post: Post | None = None,
        ask: Ask | None = None,
        held: Tensor | None = None,
    ) -> None:
        """like: samples as the clients hold them. post carries legs; split ones too, where no ask carries their parts.

        held [M, classes]: samples of each label at each client, for schedules that ask for it.
        """
        dtype = getattr(torch, setting.dtype)
        self.setting, self.like, self.ask = setting, like, ask
        self.net = net_of(setting, like, dtype, torch.device("cpu"))
        self.ranks = {name: 1 + len(shape) for name, shape in self.net.sizes().items()}
        self.algorithm = algorithms.build(setting.algorithm, dtype)
        if self.algorithm.pools:
            raise BadInput(NO_POOL)
        self.schedule = schedules.build(setting.schedule)
        self.policy = failures.policy(setting.on_failure)
        self.held = None if held is None else schedules.Held(held.unsqueeze(0), torch.zeros(1, dtype=torch.int64))
        self.void: set[int] = set()  # clients whose last round was aborted
        self.drawn: Tensor | None = None  # [1, S] who takes part in the round that is under way, or was last
        form = self.algorithm.split
        self.cut = sides(self.net, form.cut, form.head) if form else None
        carry = self._halves if form and ask else post
        assert carry is not None
        self.post: Post = carry

    def now(self, round: int) -> Now:
        """What a round may know."""
        s = self.setting
        lr = torch.tensor([s.lr * s.factor(round)], dtype=self.net.dtype)
        kind = self.algorithm.kind(round)
        return Now(s.clients, s.participants, s.local_steps, s.rounds, round, lr, kind)

    def start(self) -> State:
        """Before the first round; every client keeps what `Local.init` says, by itself."""
        x = self.net.init([self.setting.seed])
        now = self.now(0)._replace(drawn=self._drawn(0))
        return State(x, self.algorithm.server(x, now) if self.algorithm.server else {})

    def round(self, number: int, state: State) -> State:
        """One round; as it began, where it was aborted."""
        s, now, order = self.setting, self.now(number), self._drawn(number)
        if self.algorithm.order is not None:
            order = self.algorithm.order(state, order, now)
        self.drawn = order
        remote = Remote(s, now, order, self.post, self.policy, self.ranks, self._sides, self.void)
        new = self.algorithm.round(state, Cohort.whole(order), remote)
        self.void = self.void | remote.answered if remote.aborted else self.void - remote.answered
        return state if remote.aborted else new

    def _drawn(self, number: int) -> Tensor:
        """The schedule's participants of a round: [1, S]."""
        s = self.setting
        return self.schedule.draw(torch.tensor([s.seed]), torch.tensor([number]), s.clients, s.participants, self.held)

    def _sides(self, x: Params) -> tuple[Params, Params]:
        return self.cut.split(x) if self.cut else (x, {})

    def _halves(self, orders: Sequence[Order]) -> list[Answer | None]:
        """Legs in split form, one after another: the server has its half of each to do."""
        form, cut, ask = self.algorithm.split, self.cut, self.ask
        assert form is not None
        assert cut is not None
        assert ask is not None
        return [leg(self.net, self.like, form, cut, order, partial(ask, order.client)) for order in orders]
