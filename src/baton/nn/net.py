"""Any torch.nn.Module as pure functions over lanes."""

import copy
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import count

import torch
from torch import Tensor, nn
from torch.func import functional_call

from baton.errors import BadInput
from baton.lanes import Params
from baton.nn.dropout import KeyedDropout, dropouts, keyed
from baton.nn.flops import flops
from baton.nn.graph import Layer, layers
from baton.nn.pooling import quicken
from baton.nn.swap import swap
from baton.usercode import drawing, told, written_in
from baton.usercode.draws import forked, moved, states


def _key_dropout(module: nn.Module) -> None:
    """Every nn.Dropout in the tree becomes a KeyedDropout, in the order of the tree."""
    layer = count()
    swap(module, lambda child: KeyedDropout(child.p, next(layer)) if isinstance(child, nn.Dropout) else None)


def _refuse(module: nn.Module) -> None:
    """What would quietly train something else than the module says."""
    for name, child in module.named_modules():
        kind = type(child).__name__
        if isinstance(child, nn.modules.batchnorm._BatchNorm) or getattr(child, "track_running_stats", False):
            raise BadInput(
                f"model: layer {name!r} is a {kind}: its running statistics would not travel with the model, and batch "
                "statistics count padding; use GroupNorm or LayerNorm"
            )
        if isinstance(child, nn.modules.dropout._DropoutNd) and not isinstance(child, nn.Dropout):
            raise BadInput(f"model: layer {name!r} is a {kind}, whose draws cannot be keyed; use nn.Dropout")
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            raise BadInput(f"model: parameter {name!r} is frozen (requires_grad=False), and would be trained; drop it")


def _try(module: nn.Module, sample: Tensor, name: str) -> None:
    """One forward pass: the samples fit, and nothing is drawn outside the keys."""
    with forked(), torch.no_grad():
        before = states()
        try:
            made = module.train()(sample)
            module.eval()(sample)
        except Exception as error:
            raise BadInput(
                f"model: {name!r} cannot take samples of shape {tuple(sample.shape[1:])} ({told(error)})"
            ) from error
        whose = moved(before)
        refused = drawing(f"model: {name!r}", whose, _forward, (module, sample), {}) if whose else ""
    if not isinstance(made, Tensor):
        what = f"{written_in(type(module).forward)}, gives a {type(made).__name__}"
        raise BadInput(f"model: {name!r}: {what}; a tensor, one row a sample, is right")
    if refused:
        raise BadInput(refused)


def _forward(module: nn.Module, sample: Tensor) -> None:
    for mode in (True, False):
        module.train(mode)(sample)


class Net:
    """A module's forward pass as a function of its parameters, in training and in evaluation mode."""

    def __init__(
        self, build: Callable[[], nn.Module], dtype: torch.dtype, device: torch.device, sample: Tensor
    ) -> None:
        """sample [1, ...]: as the model will take them, to try it on."""
        self.build, self.dtype, self.device = build, dtype, device
        template = self._fresh(0)
        _refuse(template)
        _key_dropout(template)
        _try(template, sample, getattr(build, "__name__", type(template).__name__))
        self.convolutions = any(isinstance(m, nn.modules.conv._ConvNd) for m in template.modules())
        template.requires_grad_(False).to(device)
        self.module, self.sample = template, sample.to(device)  # its dropout is keyed
        self._own = threading.local()
        self._put_out: dict[torch.Size, int] = {}  # numbers, by the shape of a sample
        self._modules()  # now: copies cannot be made while a function of them is recorded

    def _modules(self) -> tuple[nn.Module, nn.Module, dict[str, KeyedDropout]]:
        """The thread's own modules for training and evaluation, and the dropouts of the first.

        Calling a module as a function puts the parameters into it while it lasts, so no two threads may share one.
        """
        if not hasattr(self._own, "modules"):
            train, evaluate = copy.deepcopy(self.module).train(), copy.deepcopy(self.module).eval()
            if self.device.type == "cpu":
                quicken(evaluate)
            self._own.modules = train, evaluate, dropouts(train)
        modules: tuple[nn.Module, nn.Module, dict[str, KeyedDropout]] = self._own.modules
        return modules

    def _fresh(self, seed: int) -> nn.Module:
        """A new module, initialised from `seed` alone; the global generator is left as it was."""
        with forked():
            torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed the GPU's too
            return self.build().to(self.dtype)

    def init(self, seeds: Sequence[int]) -> Params:
        """Initial parameters, lane l from seeds[l]: leaves [L, ...]."""
        made = {seed: dict(self._fresh(seed).named_parameters()) for seed in dict.fromkeys(seeds)}
        first = made[seeds[0]]
        return {name: torch.stack([made[s][name].detach() for s in seeds]).to(self.device) for name in first}

    def sizes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of one lane's parameters."""
        return {name: tuple(p.shape) for name, p in self.module.named_parameters()}

    def layers(self) -> list[Layer] | None:
        """The module's layers, where all are known."""
        return self._layers

    @cached_property
    def _layers(self) -> list[Layer] | None:
        return layers(self.module, self.sample)

    def size(self) -> int:
        """Numbers in one lane's parameters."""
        return sum(p.numel() for p in self.module.parameters())

    def width(self) -> int:
        """Numbers that it puts out for one sample."""
        return self._width

    @cached_property
    def _width(self) -> int:
        with torch.no_grad():
            return int(self._modules()[1](self.sample)[0].numel())

    def flops(self) -> int:
        """Floating-point operations of one sample's forward pass."""
        return self._flops

    @cached_property
    def _flops(self) -> int:
        return flops(self.module, self.sample)

    def activations(self, sample: Tensor) -> int:
        """Numbers that the layers put out for one sample [...]: what a step keeps for its backward pass."""
        if sample.shape not in self._put_out:
            self._put_out[sample.shape] = self._activations(sample)
        return self._put_out[sample.shape]

    def _activations(self, sample: Tensor) -> int:
        total = 0

        def add(_module: nn.Module, _inputs: object, output: object) -> None:
            nonlocal total
            total += output.numel() if isinstance(output, Tensor) else 0

        module = self._modules()[1]
        hooks = [m.register_forward_hook(add) for m in module.modules() if not list(m.children())]
        with torch.no_grad():
            module(sample.unsqueeze(0))
        for hook in hooks:
            hook.remove()
        return total

    def train(self, params: Params, key: Tensor, x: Tensor) -> Tensor:
        """One lane's forward pass with dropout keyed by `key` (a scalar)."""
        module, _, inside = self._modules()
        return keyed(module, inside, params, key, x)

    def evaluate(self, params: Params, x: Tensor) -> Tensor:
        """One lane's forward pass without dropout."""
        output: Tensor = functional_call(self._modules()[1], params, (x,))
        return output
