"""One lane's function applied to all lanes.

`torch.func.vmap` batches them into one program. On a CPU that turns convolutions into grouped ones, no faster
than one lane after another, so models with convolutions are looped over there.
"""

from collections.abc import Callable
from threading import Lock

import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from baton.lanes import Params
from baton.nn.net import Net

_RECORDING = Lock()  # it patches torch while it lasts


def looped(net: Net) -> bool:
    """Whether lanes go one after another."""
    return net.convolutions and net.device.type == "cpu"


def gradients(loss: Callable[..., Tensor], net: Net) -> Callable[..., Params]:
    """loss(params, *inputs) of one lane -> its gradient with respect to params, for all lanes."""
    if not looped(net):
        return _traced(vmap(grad(loss)))

    def one_after_another(params: Params, *inputs: Tensor) -> Params:
        found = []
        for lane in range(len(inputs[0])):
            mine = {name: leaf[lane].detach().requires_grad_() for name, leaf in params.items()}
            found.append(torch.autograd.grad(loss(mine, *(x[lane] for x in inputs)), list(mine.values())))
        return {name: torch.stack(leaves) for name, leaves in zip(params, zip(*found, strict=True), strict=True)}

    return one_after_another


def _traced(function: Callable[..., Params]) -> Callable[..., Params]:
    """The same operations, recorded once for each shape of the inputs: several times less overhead a call than vmap."""
    recorded: dict[tuple[torch.Size, ...], Callable[..., Params]] = {}

    def replay(params: Params, *inputs: Tensor) -> Params:
        shapes = tuple(x.shape for x in inputs)
        if shapes not in recorded:
            with _RECORDING:
                recorded[shapes] = make_fx(function)(params, *inputs)
        return recorded[shapes](params, *inputs)

    return replay


def mapped(function: Callable[[Params, Tensor], Tensor], net: Net, shared: bool) -> Callable[[Params, Tensor], Tensor]:
    """function(params, x) of one lane, for all lanes; shared: x has no lane axis."""
    if not looped(net):
        return vmap(function, in_dims=(0, None if shared else 0))

    def one_after_another(params: Params, x: Tensor) -> Tensor:
        lanes = range(len(next(iter(params.values()))))
        return torch.stack([function({n: p[i] for n, p in params.items()}, x if shared else x[i]) for i in lanes])

    return torch.no_grad()(one_after_another)
