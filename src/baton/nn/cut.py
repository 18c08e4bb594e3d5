"""Where a module may be cut, and its sides as functions: split learning's client-side and server-side models.

A cut lies behind a layer and has its name. It is legal where all that later layers use comes through that layer's
output, so that one tensor, the smashed data, is all that crosses; and where both sides have parameters, none shared.
"""

import copy
import threading
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, NamedTuple

from torch import Tensor, fx, nn

from baton.errors import BadInput
from baton.lanes import Params
from baton.nn.dropout import dropouts, keyed
from baton.nn.flops import flops
from baton.nn.graph import SAMPLES, Layer, Leaves, layers, shapes_of
from baton.nn.net import Net


class Cut(NamedTuple):
    """A legal cut."""

    name: str  # of the layer it lies behind
    layer: str  # and its kind: Conv2d
    shape: tuple[int, ...]  # the smashed data of one sample
    client: int  # numbers in the parameters before it
    server: int  # and behind it


class _Named(Leaves):
    """Remembers what each layer, and each block of layers, puts out."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: dict[str, list[fx.Node]] = {}

    def call_module(self, m: nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = super().call_module(m, forward, args, kwargs)
        if isinstance(result, fx.Proxy):
            self.outputs.setdefault(self.path_of_module(m), []).append(result.node)
        return result


class _Traced(NamedTuple):
    """A module's forward pass as a graph."""

    name: str
    module: nn.Module
    graph: fx.Graph
    shapes: dict[fx.Node, tuple[int, ...]]  # of what nodes put out for one sample
    outputs: dict[str, list[fx.Node]]  # by layer or block: one node a call
    before: dict[fx.Node, set[fx.Node]]  # what each node is computed from, itself among it
    end: fx.Node  # the module's output

    def data(self, node: fx.Node) -> bool:
        """Whether a node depends on the samples."""
        return any(n.op == "placeholder" for n in self.before[node])

    def part(self, begin: fx.Node | None, end: fx.Node) -> list[fx.Node]:
        """The nodes that end needs once begin is there (None: from the samples on), in order."""
        found, todo = set[fx.Node](), [end]
        while todo:
            node = todo.pop()
            if node is not begin and node not in found:
                found.add(node)
                todo += node.all_input_nodes
        return [node for node in self.graph.nodes if node in found]

    def params(self, part: list[fx.Node]) -> list[str]:
        """The parameters that nodes use; one tied to another has the first one's name."""
        names = {id(p): name for name, p in self.module.named_parameters()}
        used: dict[str, None] = {}
        for node in part:
            if node.op == "call_module":
                used |= {names[id(p)]: None for p in self.module.get_submodule(str(node.target)).parameters()}
            elif node.op == "get_attr":
                owner, _, leaf = str(node.target).rpartition(".")
                found = getattr(self.module.get_submodule(owner), leaf)
                used |= {names[id(found)]: None} if id(found) in names else {}
        return list(used)

    def bypassed(self, node: fx.Node) -> bool:
        """Whether something from before a node is used behind it without passing through it."""
        behind = [n for n in self.before[self.end] if n not in self.before[node]]
        crossing = {i for n in behind for i in n.all_input_nodes if i in self.before[node] and i is not node}
        return any(self.data(i) for i in crossing)


def _trace(net: Net) -> _Traced:
    name, module, tracer = getattr(net.build, "__name__", "model"), net.module, _Named()
    try:
        graph = tracer.trace(module)
    except Exception as error:  # whatever a user's forward pass may raise when it is given a proxy
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInput(
            f"algorithm: model {name!r} cannot be cut: its forward pass cannot be followed ({reason})"
        ) from None
    before: dict[fx.Node, set[fx.Node]] = {}
    for node in graph.nodes:
        before[node] = {node}.union(*(before[i] for i in node.all_input_nodes))
    last = next(node for node in graph.nodes if node.op == "output").args[0]
    if not isinstance(last, fx.Node):
        raise BadInput(f"algorithm: model {name!r} cannot be cut: it does not put out one tensor")
    shapes = shapes_of(module, graph, net.sample.expand(2, *net.sample.shape[1:]))
    return _Traced(name, module, graph, shapes, tracer.outputs, before, last)


def _why(traced: _Traced, layer: str, begin: fx.Node | None = None) -> str:
    """What is wrong with cutting behind a layer ("": nothing); begin: an earlier cut, this one being the second."""
    nodes = traced.outputs[layer]
    node = nodes[-1]
    if len(nodes) > 1:
        return "is a layer that is used more than once"
    if node not in traced.before[traced.end] or node not in traced.shapes:
        return "puts out nothing that could cross"
    if traced.bypassed(node):
        blocks = [name for name in traced.outputs if layer.startswith(f"{name}.") and not _why(traced, name)]
        return f"lies inside the residual block {blocks[-1]!r}" if blocks else "is bypassed: values go around it"
    front, back = traced.part(begin, node), traced.part(node, traced.end)
    if begin is not None and begin not in traced.before[node]:
        return "lies before the first cut"
    if not traced.params(front):
        return f"leaves the {'client' if begin is None else 'server'} without parameters"
    if begin is None and not traced.params(back):
        return "leaves the server without parameters"
    both = [name for name in traced.params(front) if name in traced.params(back)]
    calls = {str(n.target) for n in front if n.op == "call_module"} & dropouts(traced.module).keys()
    if both or any(str(n.target) in calls for n in back):
        return f"has {both[0]!r} on both sides" if both else "has one dropout layer on both sides"
    return ""


def _legal(traced: _Traced, begin: fx.Node | None = None) -> dict[str, fx.Node]:
    """Legal cuts in the order of the forward pass; where layer and block end together, the layer's name."""
    names = {traced.outputs[name][-1]: name for name in sorted(traced.outputs, key=len)}
    found = {name: node for node, name in names.items() if not _why(traced, name, begin)}
    order = {node: place for place, node in enumerate(traced.graph.nodes)}
    return dict(sorted(found.items(), key=lambda item: order[item[1]]))


def _node(traced: _Traced, option: str, layer: str, begin: fx.Node | None = None) -> fx.Node:
    """What a layer puts out, or the one line that says why there is no cut behind it."""
    legal = _legal(traced, begin)
    if not legal:
        what = "no layer has parameters both before and behind it" if begin is None else "not a second time"
        raise BadInput(f"algorithm: model {traced.name!r} cannot be cut: {what}")
    wrong = _why(traced, layer, begin) if layer in traced.outputs else f"is not a layer of {traced.name!r}"
    if wrong:
        close = min(legal, key=lambda name: _apart(layer, name))
        hint = f"did you mean {close!r}?" if len(legal) > 1 else f"{close!r} is right"
        raise BadInput(f"algorithm: {option}={layer} {wrong}; {hint} (cuts: {', '.join(legal)})")
    return traced.outputs[layer][0]


def _apart(a: str, b: str) -> float:
    """How far two names are from each other; layers that are numbered, by their numbers."""
    one, two = a.split("."), b.split(".")
    if all(part.isdigit() for part in (*one, *two)):
        pairs = zip_longest(map(int, one), map(int, two), fillvalue=0)
        return float(sum(abs(x - y) / 1000**place for place, (x, y) in enumerate(pairs)))
    return 1 - SequenceMatcher(None, a, b).ratio()


def cuts(net: Net) -> list[Cut]:
    """Every legal cut of a model; none where its forward pass cannot be followed."""
    try:
        traced = _trace(net)
    except BadInput:
        return []
    sizes = {name: p.numel() for name, p in net.module.named_parameters()}
    found = []
    for name, node in _legal(traced).items():
        client = sum(sizes[n] for n in traced.params(traced.part(None, node)))
        kind = type(net.module.get_submodule(name)).__name__.removeprefix("Keyed")
        found.append(Cut(name, kind, traced.shapes[node], client, sum(sizes.values()) - client))
    return found


class Side:
    """One side of a model, as a function of its own parameters and what comes in."""

    def __init__(self, module: fx.GraphModule, names: list[str], shape: tuple[int, ...]) -> None:
        """names: of its parameters; shape: of what it puts out for one sample."""
        self.names, self.shape = names, shape
        self._module, self._own = module, threading.local()
        self._mine()  # now: copies cannot be made while a function of them is recorded

    def _mine(self) -> tuple[nn.Module, dict[str, Any]]:
        """The thread's own module: its parameters are exchanged while it is called."""
        if not hasattr(self._own, "module"):
            module = copy.deepcopy(self._module).train()
            self._own.module = module, dropouts(module)
        own: tuple[nn.Module, dict[str, Any]] = self._own.module
        return own

    def __call__(self, params: Params, key: Tensor, x: Tensor) -> Tensor:
        """One lane's forward pass in training, dropout keyed by `key` (a scalar); layers may write over their own x."""
        return keyed(*self._mine(), params, key, x.clone())

    def of(self, x: Params) -> Params:
        """Of a model's parameters, those of this side."""
        return {name: x[name] for name in self.names}

    def flops(self, sample: Tensor) -> tuple[int, Tensor]:
        """Of one sample's forward pass; and what comes out."""
        return flops(self._module, sample), self._module(sample)

    def layers(self, sample: Tensor) -> list[Layer] | None:
        """Its layers on sample [1, ...], where all are known."""
        return layers(self._module, sample)


class Sides(NamedTuple):
    """A model cut once, or twice: then the client has its first and its last part, and the server the one between."""

    front: Side  # the client's
    back: Side  # the server's
    head: Side | None  # the client's, behind the second cut

    def flops(self, sample: Tensor) -> tuple[int, int]:
        """Of one sample's forward pass: (client's, server's)."""
        front, smashed = self.front.flops(sample)
        back, features = self.back.flops(smashed)
        return front + (self.head.flops(features)[0] if self.head else 0), back

    def layers(self, sample: Tensor) -> tuple[list[Layer], int] | None:
        """The layers of a model cut once, and how many are the client's; None where not all are known."""
        front = self.front.layers(sample)
        back = self.back.layers(sample.new_zeros(1, *self.front.shape))
        if self.head or front is None or back is None:
            return None
        known = len(front)
        moved = (tuple(known - 1 if i == SAMPLES else known + i for i in layer.inputs) for layer in back)
        return front + [layer._replace(inputs=i) for layer, i in zip(back, moved, strict=True)], known

    def split(self, x: Params) -> tuple[Params, Params]:
        """(client side, server side) of a model's parameters; what no layer reads is the server's."""
        mine = {*self.front.names, *(self.head.names if self.head else [])}
        return {n: leaf for n, leaf in x.items() if n in mine}, {n: leaf for n, leaf in x.items() if n not in mine}


def sides(net: Net, cut: str, head: str = "") -> Sides:
    """The model of net cut behind the layer `cut`, and behind `head` where that is named."""
    traced = _trace(net)
    first = _node(traced, "cut", cut)
    second = _node(traced, "head", head, first) if head else None
    front, back = _side(traced, None, first), _side(traced, first, second or traced.end)
    return Sides(front, back, _side(traced, second, traced.end) if second else None)


def _side(traced: _Traced, begin: fx.Node | None, end: fx.Node) -> Side:
    """The layers behind begin, up to end, as a module of their own over the same layers."""
    graph, made = fx.Graph(), dict[fx.Node, fx.Node]()
    if begin is not None:
        made[begin] = graph.placeholder("smashed")
    part = traced.part(begin, end)
    for node in part:
        made[node] = graph.node_copy(node, made.__getitem__)
    graph.output(made[end])
    return Side(fx.GraphModule(traced.module, graph), traced.params(part), traced.shapes[end])
