"""A module as a list of layers that are known, so that they can be run by kernels that know the lane axis.

Read off by torch.fx, with the shape of what each layer puts out. A module that holds anything else has no such list,
and runs as it is.
"""

import operator
from threading import RLock, get_ident
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from baton.nn.dropout import KeyedDropout

SAMPLES = -1  # the input, where a layer's inputs are named
TRACING = RLock()  # while a forward pass is followed, torch's modules are patched for all threads


class Layer(NamedTuple):
    """One layer over samples: `shape` is what it puts out for one of them, [C, H, W] or [n]."""

    kind: str  # conv linear relu pool average dropout flatten add
    inputs: tuple[int, ...]  # places of earlier layers in the list, or SAMPLES
    shape: tuple[int, ...]
    weight: str = ""  # names of parameters; conv [O, I, h, w], linear [O, I], as torch keeps them
    bias: str = ""  # "": none
    stride: int = 1  # conv
    padding: int = 0  # conv
    p: float = 0.0  # dropout
    number: int = 0  # dropout: the layer's word in its draws


class Leaves(fx.Tracer):
    """Follows a forward pass down to torch's own layers, and keyed dropout; other threads may go on with theirs."""

    _thread = 0

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> fx.Graph:
        """One at a time."""
        with TRACING:
            self._thread = get_ident()
            return super().trace(root, concrete_args)

    def call_module(self, m: nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A module that another thread calls meanwhile is none of this one's."""
        mine = get_ident() == self._thread
        return super().call_module(m, forward, args, kwargs) if mine else forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Nor its parameters."""
        mine = get_ident() == self._thread
        return super().getattr(attr, attr_val, parameter_proxy_cache) if mine else attr_val

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        """What is one layer."""
        return isinstance(module, KeyedDropout) or super().is_leaf_module(module, name)


def layers(module: nn.Module, sample: Tensor) -> list[Layer] | None:
    """module on sample [1, ...]; None where it does something that has no kernel here."""
    try:
        graph = Leaves().trace(module)
    except Exception:  # whatever a user's forward pass may raise when it is given a proxy
        return None
    shapes = shapes_of(module, graph, sample)
    found: list[Layer] = []
    place: dict[fx.Node, int] = {}
    named, used = dict(module.named_modules()), set[str]()
    parameters = {name for name, _ in module.named_parameters()}  # a weight tied to another has no name of its own
    for node in graph.nodes:
        if node.op == "placeholder":
            place[node] = SAMPLES
        elif node.op == "output":
            trained = {name for layer in found for name in (layer.weight, layer.bias) if name}
            last = node.args[0] in place and place[node.args[0]] == len(found) - 1
            return found if last and trained == parameters else None
        else:
            target = named[node.target] if node.op == "call_module" else None
            inputs = [arg for arg in node.args if isinstance(arg, fx.Node)]
            if isinstance(target, nn.Identity | nn.Flatten) and _same(node, shapes, target):
                place[node] = place[inputs[0]]
                continue
            layer = _module(target, node) if target is not None else _function(node)
            known = node in shapes and all(i in place for i in inputs)
            if layer is None or not known or (node.op == "call_module" and node.target in used):
                return None  # a module used twice: its weights would have two gradients, its dropout two draws
            used.add(str(node.target))
            if layer.kind == "linear" and len(shapes[node]) != 1:
                return None
            found.append(layer._replace(inputs=tuple(place[i] for i in inputs), shape=shapes[node]))
            place[node] = len(found) - 1
    return None


def _same(node: fx.Node, shapes: dict[fx.Node, tuple[int, ...]], target: nn.Module) -> bool:
    """Identity, and Flatten of what is flat already."""
    return isinstance(target, nn.Identity) or shapes.get(node) == shapes.get(node.args[0])  # type: ignore[arg-type]


def shapes_of(module: nn.Module, graph: fx.Graph, sample: Tensor) -> dict[fx.Node, tuple[int, ...]]:
    """What each node puts out for one sample."""
    shapes: dict[fx.Node, tuple[int, ...]] = {}

    class Record(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            result = super().run_node(n)
            if isinstance(result, Tensor) and result.shape[:1] == sample.shape[:1]:
                shapes[n] = tuple(result.shape[1:])
            return result

    with torch.no_grad():
        Record(module, graph=graph).run(sample)
    return shapes


def _square(value: Any) -> int | None:
    """The one number of a size that is the same both ways."""
    if isinstance(value, int):
        return value
    return value[0] if isinstance(value, tuple) and len(set(value)) == 1 and isinstance(value[0], int) else None


def _module(layer: nn.Module, node: fx.Node) -> Layer | None:
    name = str(node.target)
    if len(node.args) != 1 or node.kwargs:
        return None
    empty = Layer("", (), ())
    bias = f"{name}.bias" if getattr(layer, "bias", None) is not None else ""
    if type(layer) is nn.Linear:
        return empty._replace(kind="linear", weight=f"{name}.weight", bias=bias)
    if type(layer) is nn.Conv2d:
        stride, padding, size = _square(layer.stride), _square(layer.padding), _square(layer.kernel_size)
        plain = layer.groups == 1 and _square(layer.dilation) == 1 and layer.padding_mode == "zeros"
        if stride is None or padding is None or size is None or not plain:
            return None
        weight = f"{name}.weight"
        return empty._replace(kind="conv", weight=weight, bias=bias, stride=stride, padding=padding)
    if type(layer) is nn.MaxPool2d:
        window = (_square(layer.kernel_size), _square(layer.stride))
        rest = (_square(layer.padding), _square(layer.dilation), layer.ceil_mode, layer.return_indices)
        return empty._replace(kind="pool") if window == (2, 2) and rest == (0, 1, False, False) else None
    if type(layer) is nn.AdaptiveAvgPool2d:
        return empty._replace(kind="average") if _square(layer.output_size) == 1 else None
    if type(layer) is nn.Flatten:
        return empty._replace(kind="flatten") if (layer.start_dim, layer.end_dim) == (1, -1) else None
    if type(layer) is nn.ReLU:
        return empty._replace(kind="relu")
    if isinstance(layer, KeyedDropout):
        return empty._replace(kind="dropout", p=layer.p, number=layer.layer)
    return None


def _function(node: fx.Node) -> Layer | None:
    if node.target in (torch.relu, functional.relu) and not node.kwargs.get("inplace"):
        return Layer("relu", (), ())
    added = node.target in (operator.add, torch.add) and len(node.args) == 2 and not node.kwargs
    if added and all(isinstance(arg, fx.Node) for arg in node.args):
        return Layer("add", (), ())
    return None
