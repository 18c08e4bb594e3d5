"""How many lanes fit the memory given."""

import re
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from baton import algorithms, clients, datasets, ledger, limits, metrics, rng
from baton.algorithms import Algorithm
from baton.datasets import Dataset
from baton.errors import BadInput
from baton.nn import Net
from baton.nn.watched import Watched
from baton.seam import Now
from baton.setting import Setting
from baton.simulate.engine import first
from baton.simulate.kept import Kept, laid_out
from baton.simulate.per_site import MOST
from baton.simulate.program import Nets, Program, sides_of
from baton.simulate.rounds import one

HOPELESS = 8  # times the budget: what a short round is counted to need from here on is not tried
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse(text: str) -> int:
    """Bytes from `500M`, `2GB`, `1.5GiB`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if not match or float(match[1]) <= 0:
        raise BadInput(f"memory: {text!r} is not a size; 500M or 2GB is right")
    return int(float(match[1]) * UNITS[match[2].upper()])


def readable(size: float) -> str:
    """A size for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def free(device: torch.device) -> int:
    """A safe share of what is free: half of the main memory that this process may have, four fifths of a GPU's."""
    if device.type == "cuda":
        return int(0.8 * torch.cuda.mem_get_info(device)[0])
    found = limits.memory()
    return 4 << 30 if found is None else found // 2


class Need(NamedTuple):
    """What a lane takes."""

    bytes: int  # while it trains
    legs: int  # that are trained at the same time, at most


def per_lane(lanes: Sequence[Setting], budget: int, device: torch.device) -> int:
    """Bytes a lane of this program needs while it trains."""
    return needed(lanes, budget, device, Nets()).bytes


def needed(lanes: Sequence[Setting], budget: int, device: torch.device, nets: Nets) -> Need:
    """Of a lane of this program: measured where its bytes come near the budget, else counted; nets: built before."""
    with limits.enough("memory: too little is free to plan this setting"):
        terms = _terms(lanes[0], nets)
        counted = Need(_counted(lanes, terms, nets), terms.width)
        if 4 * counted.bytes * len(lanes) < budget:
            return counted
        try:
            short = _small(lanes[0], 2, 1)
            hopeless = _counted([short], _terms(short, nets), nets) > HOPELESS * budget
            return counted if hopeless else counted._replace(bytes=measured(lanes[0], device, nets))
        except BadInput:  # a method that has no rounds of so few legs: more groups than that
            return counted


def _net(setting: Setting, nets: Nets) -> Net:
    return nets.of(setting, datasets.load(setting.dataset, setting.clients), torch.device("cpu"))


def _terms(setting: Setting, nets: Nets) -> ledger.Terms:
    """What its rounds do; also says which cut cannot be."""
    net = _net(setting, nets)
    algorithm = algorithms.build(setting.algorithm, net.dtype)
    return ledger.terms(algorithm, net, sides_of(algorithm, net), _now(setting))


def _counted(lanes: Sequence[Setting], terms: ledger.Terms, nets: Nets) -> int:
    """Bytes, from the model's layers and the leg's tensors."""
    setting = lanes[0]
    data, net = datasets.load(setting.dataset, setting.clients), _net(setting, nets)
    sample, now = net.sample[0], _now(setting)
    algorithm = algorithms.build(setting.algorithm, net.dtype)
    leg, largest = _leg(lanes, algorithm)
    batch = clients.width(leg, largest)
    legs = terms.width if algorithm.pools or clients.by_the_leg(leg, largest) else setting.participants
    step = batch * (sample.numel() + 4 * net.activations(sample)) + 5 * net.size()
    item: int = net.dtype.itemsize
    return (
        (step * terms.width + (3 + terms.held - terms.width) * net.size()) * item
        + _draws(leg, largest) * legs
        + _drawers(algorithm, net, now)
        + _measured(setting, data, net.width() * item)
    )


def _draws(leg: Setting, largest: int) -> int:
    """Bytes that drawing a leg's minibatches takes at its peak."""
    drawn = clients.slots(leg, largest) * clients.width(leg, largest)
    return 8 * 8 * (drawn + min(largest, rng.dense_up_to(drawn)))


def _leg(lanes: Sequence[Setting], algorithm: Algorithm) -> tuple[Setting, int]:
    """The longest leg of these lanes, and how many samples its client holds."""
    splits = {(s.dataset, s.partition): s for s in lanes}.values()
    if algorithm.pools:
        return clients.pooled_leg(lanes[0]), max(int(clients.sizes(s).sum()) for s in splits)
    return lanes[0], max(int(clients.sizes(s).max()) for s in splits)


def _measured(setting: Setting, data: Dataset, width: int) -> int:
    """Bytes of what is asked beside the usual metrics: outputs for the test set, twice, and what sites were told."""
    specs = metrics.wanted(setting.metrics, data)
    metrics.build(specs, data)  # says which cannot be
    taken = 2 + setting.rounds // setting.eval_every
    rows = len(data.test_y) + round(setting.validation * len(data.y))
    return 2 * rows * width + 4 * taken * min(setting.clients, MOST) * len(specs) if specs else 0


def _now(setting: Setting) -> Now:
    return Now(
        setting.clients,
        setting.participants,
        setting.local_steps,
        setting.rounds,
        0,
        torch.ones(1, dtype=getattr(torch, setting.dtype)),
    )


def _drawers(algorithm: Algorithm, net: Net, now: Now) -> int:
    """Bytes of what server and clients keep of one lane: two states of the first, all rows of the second."""
    x = {name: torch.zeros(1, *shape, dtype=net.dtype) for name, shape in net.sizes().items()}
    server = algorithm.server(x, now) if algorithm.server else {}
    own = algorithm.local.init(x) if algorithm.local else {}
    return 2 * sum(leaf.nbytes for leaf in server.values()) + (1 + now.clients) * sum(
        leaf.nbytes for leaf in own.values()
    )


def measured(setting: Setting, device: torch.device, nets: Nets | None = None) -> int:
    """Bytes, from short rounds of one lane: two legs of one step, a step more, a leg more; the rest is proportion."""
    algorithm, nets = algorithms.build(setting.algorithm), nets or Nets()
    leg, largest = _leg([setting], algorithm)
    legs, steps = 1 if algorithm.pools else setting.participants, clients.slots(leg, largest)
    drawing = _terms(setting, nets).width if clients.by_the_leg(leg, largest) else legs
    few = min(2, legs)  # the second leg may need what the first did not, the third needs what the second did
    first = _peak(setting, few, 1, device, nets)
    a_step = (_peak(setting, few, 2, device, nets) - first) / few if steps > 1 else 0
    a_leg = _peak(setting, 3, 1, device, nets) - first if legs > 2 else 0
    counted = drawing * _draws(leg, largest)  # in short rounds other things are larger
    return max(counted, int(first + (legs - few) * a_leg + (steps - 1) * drawing * a_step))


def _small(setting: Setting, legs: int, steps: int) -> Setting:
    """The same with fewer legs and steps."""
    few = {"participants": min(legs, setting.participants), "local_steps": steps, "epochs": 0}
    return Setting(**{**setting.model_dump(), **few})


def _peak(setting: Setting, legs: int, steps: int, device: torch.device, nets: Nets) -> int:
    """Bytes a round allocates at its peak, with the states before and after it."""
    program = Program([_small(setting, legs, steps)], device, nets=nets)
    at, order = first(program), program.order(0)
    with Allocated() as found:
        drawn = program.ahead(0, order) if program.foreseen else None
        one(
            program,
            program.now(0, program.rate(0)),
            order,
            drawn,
            at.state,
            Kept(laid_out(at.clients, None)),
            at.diverged,
        )
    drawers = [*(2 * leaf.nbytes for drawer in at.state for leaf in drawer.values())]
    return int(found.peak) + sum(drawers) + sum(leaf.nbytes for leaf in at.clients.values())


class Allocated(Watched):
    """Counts the bytes of tensors that operations inside it make, while they live."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Every operation passes here."""
        before = {_place(x) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        result = func(*args, **(kwargs or {}))
        for made in tree_leaves(result):
            if isinstance(made, Tensor) and _place(made) not in before | self.known:
                self._add(made.untyped_storage())
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        place, size = storage._cdata, storage.nbytes()
        self.known.add(place)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._gone, place, size)

    def _gone(self, place: int, size: int) -> None:
        self.known.discard(place)
        self.now -= size


def _place(x: Tensor) -> int:
    return int(x.untyped_storage()._cdata)


def lanes_that_fit(each: int, memory: int) -> int:
    """How many lanes of so many bytes one chunk may hold."""
    if each > memory:
        raise BadInput(f"memory: {readable(memory)} is too little; one lane of this setting needs {readable(each)}")
    return memory // each
