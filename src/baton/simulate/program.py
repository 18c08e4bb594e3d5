"""What lanes of one shape_key share, and what sets them apart."""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from baton import algorithms, clients, datasets, failures, ledger, legs, models, privacy, schedules
from baton.algorithms import Algorithm
from baton.clients import Batches, Clients
from baton.datasets import Dataset, tells_numbers
from baton.errors import BadInput
from baton.lanes import Lanes, Params
from baton.nn import Net
from baton.nn.cut import Sides, sides
from baton.seam import Now
from baton.setting import Setting
from baton.simulate.asked import asked
from baton.simulate.evaluate import Evaluator
from baton.simulate.kept import Layout
from baton.usercode import blamed, lines, own, told, written_in


def net_of(setting: Setting, data: Dataset, device: torch.device) -> Net:
    """The setting's model for this data."""
    dtype = getattr(torch, setting.dtype)
    build = models.factory(setting.model, tuple(data.x.shape[1:]), data.classes, tells_numbers(data))
    with blamed(setting.theirs):
        net = Net(build, dtype, device, datasets.prepared(data, data.x[:1], dtype))
        _try(net, data, setting)
    return net


class Nets:
    """Models that are built once each, for as long as many programs of few models are looked at."""

    def __init__(self, most: int = 4) -> None:
        """most: models that are kept at a time."""
        self.most = most
        self._known: dict[tuple[str, str, torch.device, int], tuple[Dataset, Net]] = {}

    def of(self, setting: Setting, data: Dataset, device: torch.device) -> Net:
        """The setting's model for this data."""
        key = setting.model, setting.dtype, device, id(data.x)  # which stays another's as long as it is kept here
        if key not in self._known:
            if len(self._known) >= self.most:
                del self._known[next(iter(self._known))]
            self._known[key] = data, net_of(setting, data, device)
        return self._known[key][1]


def _try(net: Net, data: Dataset, setting: Setting) -> None:
    """What one sample costs: the model's output fits the loss, and the loss is one number a sample."""
    label = torch.full((1,), max(0, data.classes - 1), device=net.device).to(data.y.dtype)
    output = net.evaluate(dict(net.module.named_parameters()), net.sample)
    _fits(output, data, setting)
    try:
        cost = data.loss(output, label)
    except Exception as error:
        what = f"{setting.model!r} puts out {tuple(output.shape)} for one sample of {setting.dataset!r}"
        field = "dataset" if lines(error) else "model"  # whose function it is that fails
        raise BadInput(f"{field}: {what}, which its loss cannot take ({told(error)})") from error
    if not isinstance(cost, Tensor) or cost.shape != (1,):
        what = f"the shape {tuple(cost.shape)}" if isinstance(cost, Tensor) else f"a {type(cost).__name__}"
        what = f"the loss ({written_in(data.loss)}) gives {what} for one sample"
        raise BadInput(f"dataset: {setting.dataset!r}: {what}; one number a sample, (1,), is right")


def _fits(output: Tensor, data: Dataset, setting: Setting) -> None:
    """A number a class; of two classes one logit will do."""
    widths = {0: [], 2: [2, 1]}.get(data.classes, [data.classes])
    if widths and tuple(output.shape) not in [(1, width) for width in widths]:
        what = f"{setting.model!r} puts out {tuple(output.shape)} for one sample of {setting.dataset!r}"
        right = " or ".join(f"(1, {width})" for width in widths)
        raise BadInput(f"model: {what}, which has {data.classes} classes; {right} is right")


def sides_of(algorithm: Algorithm, net: Net) -> Sides | None:
    """The model as the algorithm cuts it; None where it does not."""
    return sides(net, algorithm.split.cut, algorithm.split.head) if algorithm.split else None


class Program:
    """Everything that lanes of one shape_key share, and what sets them apart."""

    def __init__(
        self,
        settings: Sequence[Setting],
        device: torch.device,
        precision: str = "fp32",
        threads: int = 1,
        nets: Nets | None = None,
    ) -> None:
        """precision: of products on a GPU; threads: cores that lanes may be spread over on a CPU; nets: kept ones."""
        self.setting, self.settings, self.seeds = settings[0], list(settings), [s.seed for s in settings]
        dtype = getattr(torch, self.setting.dtype)
        names = dict.fromkeys(s.dataset for s in settings)
        sets = [datasets.load(name, self.setting.clients) for name in names]
        data = next((d for d in sets if d.augment is not None), sets[0])  # what one lane draws anew, all run through
        self.clients, partition = clients.build(settings, dtype, device)
        self.net = (nets or Nets()).of(self.setting, data, device)
        self.test_owner = None if data.test_owner is None else data.test_owner.to(device)  # [n]
        self.sizes = self.net.sizes()
        self.ranks = {name: 1 + len(shape) for name, shape in self.sizes.items()}  # of leaves [L, ...]
        self.algorithm = algorithms.build([s.algorithm for s in settings], dtype, device)
        self.called = algorithms.called(self.setting.algorithm)  # its name
        self.theirs = own(self.called)  # whether it is a user's own: what it gives is looked at
        self.dp = privacy.build([s.dp for s in settings], dtype, device)  # None: legs are told as they are
        self.sides = sides_of(self.algorithm, self.net)
        form = self.algorithm.split
        self.passes = self.setting.epochs or (form.passes if form else 0)  # of a leg, at most; 0: every leg has K steps
        self.schedule = schedules.build(self.setting.schedule)
        self.repeats = self.schedule.declared.repeats
        self.failing, self.policy = failures.failing(self.setting.failures), failures.policy(self.setting.on_failure)
        if self.failing.real:
            raise BadInput(
                "failures: 'real' is for runs over real sites ('baton deploy'); none or share:p=0.1 is right"
            )

        def column(field: str) -> Tensor:
            return torch.tensor([getattr(s, field) for s in settings], dtype=dtype, device=device)

        seed = torch.tensor(self.seeds, dtype=torch.int64, device=device)
        lr, clip, decay, momentum = (column(field) for field in ("lr", "clip", "weight_decay", "momentum"))
        self.lanes = Lanes(seed, lr, clip, decay, momentum, partition)
        self.momentum = any(s.momentum > 0 for s in settings)
        self.steady = all(s.lr_schedule == "constant" for s in settings)  # the learning rate, over rounds
        clipped = any(s.clip > 0 for s in settings)
        how = clipped, precision, threads, form, self.sides, self.algorithm.elastic
        self.legs = legs.choose(self.net, data, self.clients, *how)
        optima = [d.optimum for d in sets if d.optimum is not None]
        more = asked(settings, sets, self.clients, partition, self.algorithm.personal is not None)
        self.evaluate = Evaluator(self.legs, data, self.clients, self.lanes, optima, more)

    def layout(self, leaves: Params) -> Layout | None:
        """How its legs like leaves [L, ...] to lie in memory, where these are a model's; None: as they come."""
        found: Layout | None = getattr(self.legs, "layout", None)
        return found if {n: tuple(leaf.shape[1:]) for n, leaf in leaves.items()} == self.net.sizes() else None

    # --- what a round may know

    def rate(self, round: int) -> Tensor:
        """The learning rate of a round: [L]."""
        if self.steady:
            return self.lanes.lr
        rates = [s.lr * s.factor(round) for s in self.settings]
        return torch.tensor(rates, dtype=self.lanes.lr.dtype, device=self.lanes.lr.device)

    def now(self, round: int | Tensor, lr: Tensor, kind: object = None) -> Now:
        """What round number `round` may know."""
        s = self.setting
        kind = self.algorithm.kind(round) if kind is None and isinstance(round, int) else kind
        return Now(s.clients, s.participants, s.local_steps, s.rounds, round, lr, kind)

    # --- what is drawn

    def order(self, round: int) -> Tensor:
        """The participants of a round: [L, S]."""
        return self.orders(range(round, round + 1)).squeeze(1)

    def orders(self, rounds: range) -> Tensor:
        """The participants of some rounds: [L, rounds, S]."""
        s, count = self.setting, len(rounds)
        number = torch.tensor(rounds, device=self.lanes.seed.device).repeat(len(self.seeds))
        seed = self.lanes.seed.repeat_interleave(count)
        order = self.schedule.draw(seed, number, s.clients, s.participants, self._held(count))
        if not self.schedule.registered:  # a user's own: it need not know the device either
            place, shape = self.schedule.place, (len(seed), s.clients, s.participants)
            order = schedules.checked(order, place, *shape, self.repeats).to(seed.device)
        return order.view(-1, count, s.participants)

    def _held(self, rounds: int) -> "schedules.Held | None":
        """What clients hold, for schedules that ask for it."""
        if not self.schedule.declared.held:
            return None
        return schedules.Held(self._labels, self.lanes.partition.repeat_interleave(rounds))

    @cached_property
    def _labels(self) -> Tensor:
        """[P, M, classes]: samples of each label at each client; all in one column where there are no labels."""
        numbers = self.clients.y.is_floating_point()
        return clients.labels(self.clients, 1 if numbers else max(1, int(self.clients.y.max()) + 1))

    def draw(self, round: int | Tensor, client: Tensor, number: int | Tensor = 0) -> Batches:
        """The minibatches of visits to clients [L, C], as lanes [L C]; number: of earlier visits in the round."""
        each = client.shape[1]
        lanes = self.lanes if each == 1 else self.lanes.repeat(each)
        flat, again = client.flatten(), number.flatten() if isinstance(number, Tensor) else number
        key = clients.visit(lanes.seed, round, flat, again)
        return clients.batches(self.clients, lanes, flat, key, self.setting, self.passes)

    def draw_pool(self, round: int | Tensor) -> Batches:
        """The minibatches of a leg on everybody's samples, [L]."""
        table, setting = self.pool
        key = clients.visit(self.lanes.seed, round, torch.zeros_like(self.lanes.seed))
        return clients.batches(table, self.lanes, torch.zeros_like(self.lanes.seed), key, setting, setting.epochs)

    @cached_property
    def pool(self) -> tuple[Clients, Setting]:
        """One client that holds everybody's samples, and its leg."""
        return clients.pooled(self.clients), clients.pooled_leg(self.setting)

    @property
    def foreseen(self) -> bool:
        """Whether the minibatches of a whole round are drawn beforehand: it is known whose, and there is room."""
        return self.algorithm.order is None and self.roomy

    @property
    def roomy(self) -> bool:
        """Whether those of a round are drawn at once, when its order is known."""
        once = not self.repeats and not self.algorithm.pools
        return once and not clients.by_the_leg(self.setting, self.clients.largest)

    def ahead(self, round: int | Tensor, order: Tensor) -> list[Batches]:
        """The minibatches of first visits to clients [L, S], a leg each; round: one, or a tensor of one a leg [S]."""
        lanes, count = order.shape
        tiled = Lanes(*(field.repeat(count) for field in self.lanes))
        number = round.repeat_interleave(lanes) if isinstance(round, Tensor) and round.dim() else round
        flat = order.t().flatten()
        key = clients.visit(tiled.seed, number, flat)
        drawn = clients.batches(self.clients, tiled, flat, key, self.setting, self.passes)
        legs = zip(*(field.view(count, lanes, *field.shape[1:]).unbind(0) for field in drawn), strict=True)
        return [Batches(*leg) for leg in legs]

    # --- what a leg is

    @property
    def even(self) -> bool:
        """Whether every leg takes K steps, whoever trains."""
        return self.passes == 0 and self.clients.smallest > 0

    @property
    def moving(self) -> bool:
        """Whether every leg's steps move it: none where a learning rate comes to 0."""
        return self.even and self.steady

    @cached_property
    def full_reach(self) -> Tensor:
        """Of K steps: [L, 1]."""
        return self.reach(torch.full_like(self.lanes.seed, self.setting.local_steps)).unsqueeze(1)

    def reach(self, steps: Tensor) -> Tensor:
        """How far a constant direction moves a model in so many steps [L, ...], in learning rates."""
        return clients.reached(steps.to(self.lanes.lr.dtype), self.lanes.momentum if self.momentum else None)

    def apart(self, x: Params) -> tuple[Params, Params]:
        """A model as (the clients' side, the server's): all is the clients' where it is not cut."""
        return self.sides.split(x) if self.sides else (x, {})

    @cached_property
    def terms(self) -> ledger.Terms:
        """What the first lane's legs cost, and what its rounds do."""
        return self._terms(self.setting.algorithm)

    @cached_property
    def terms_by_lane(self) -> list[tuple[ledger.Terms, list[int]]]:
        """The same of every lane, those that agree together: a rate of 1 or a strength of 0 may send less."""
        lanes: dict[str, list[int]] = {}
        for i, s in enumerate(self.settings):
            lanes.setdefault(s.algorithm, []).append(i)
        found: list[tuple[ledger.Terms, list[int]]] = []
        for spec, some in lanes.items():
            own = self.terms if spec == self.setting.algorithm else self._terms(spec)
            alike = next((group for terms, group in found if terms.equals(own, self.setting.rounds)), None)
            if alike is None:
                found.append((own, some))
            else:
                alike += some
        return found

    def _terms(self, spec: str) -> ledger.Terms:
        return ledger.terms(algorithms.build(spec, self.net.dtype), self.net, self.sides, self.one_lane())

    def one_lane(self) -> Now:
        """What a round of the first lane alone would know, wherever the lanes are."""
        return self.now(0, self.rate(0)[:1].cpu())
