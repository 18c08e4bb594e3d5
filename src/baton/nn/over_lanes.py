"""One lane's function applied to all lanes.

`torch.func.vmap` batches them into one program. On a CPU that turns convolutions into grouped ones, no faster
than one lane after another, so models with convolutions are looped over there, lanes spread over threads.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from baton.lanes import Params
from baton.nn.graph import TRACING
from baton.nn.net import Net

T = TypeVar("T")


def looped(net: Net) -> bool:
    """Whether lanes go one after another."""
    return net.convolutions and net.device.type == "cpu"


def gradients(loss: Callable[..., Tensor], net: Net, threads: int) -> Callable[..., Params]:
    """loss(params, *inputs) of one lane -> its gradient with respect to params, for all lanes."""
    if not looped(net):
        return traced(vmap(grad(loss)))

    def one(params: Params, *inputs: Tensor) -> tuple[Tensor, ...]:
        mine = {name: leaf.detach().requires_grad_() for name, leaf in params.items()}
        return torch.autograd.grad(loss(mine, *inputs), list(mine.values()))

    each = _each(one, threads)

    def one_after_another(params: Params, *inputs: Tensor) -> Params:
        lanes = range(len(inputs[0]))
        found = each([({name: leaf[i] for name, leaf in params.items()}, *(x[i] for x in inputs)) for i in lanes])
        return {name: torch.stack(leaves) for name, leaves in zip(params, zip(*found, strict=True), strict=True)}

    return one_after_another


def forwards(function: Callable[..., Tensor], net: Net, threads: int) -> Callable[..., Tensor]:
    """function(params, *inputs) of one lane, for all lanes."""
    if not looped(net):
        return traced(vmap(function))
    each = _each(torch.no_grad()(function), threads)

    def one_after_another(params: Params, *inputs: Tensor) -> Tensor:
        lanes = range(len(inputs[0]))
        given = [({name: leaf[i] for name, leaf in params.items()}, *(x[i] for x in inputs)) for i in lanes]
        return torch.stack(each(given))

    return one_after_another


def _each(function: Callable[..., T], threads: int) -> Callable[[list[tuple[Any, ...]]], list[T]]:
    """function of each of the arguments given, on so many threads: torch lets others run while it computes."""
    if threads == 1:
        return lambda given: [function(*one) for one in given]
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    return lambda given: list(pool.map(lambda one: function(*one), given))


def traced(function: Callable[..., T]) -> Callable[..., T]:
    """The same operations, recorded once for each shape of the inputs: several times less overhead a call than vmap."""
    recorded: dict[tuple[torch.Size, ...], Callable[..., T]] = {}

    def replay(params: Params | Tensor, *inputs: Tensor) -> T:
        shapes = tuple(x.shape for x in inputs)
        if shapes not in recorded:
            with TRACING:
                recorded[shapes] = make_fx(lambda *given: function(*given))(params, *inputs)  # methods too
        return recorded[shapes](params, *inputs)

    return replay


def mapped(
    function: Callable[[Params, Tensor], Tensor], net: Net, threads: int
) -> Callable[[Params, Tensor, bool], Tensor]:
    """function(params, x) of one lane, for all lanes: (params, x, whether x is the same for all, without lane axis)."""
    if not looped(net):
        return lambda params, x, shared: vmap(function, in_dims=(0, None if shared else 0))(params, x)
    each = _each(torch.no_grad()(function), threads)

    def one_after_another(params: Params, x: Tensor, shared: bool) -> Tensor:
        lanes = range(len(next(iter(params.values()))))
        return torch.stack(each([({n: p[i] for n, p in params.items()}, x if shared else x[i]) for i in lanes]))

    return one_after_another
