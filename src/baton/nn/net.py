"""Any torch.nn.Module as pure functions over lanes."""

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from baton.errors import BadInput
from baton.lanes import Params
from baton.nn.dropout import KeyedDropout


def _key_dropout(module: nn.Module) -> None:
    """Every nn.Dropout in the tree becomes a KeyedDropout, in the order of the tree."""
    layers = [
        (parent, name, child)
        for parent in module.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.Dropout)
    ]
    for layer, (parent, name, child) in enumerate(layers):
        setattr(parent, name, KeyedDropout(child.p, layer))


def _refuse_running_statistics(module: nn.Module) -> None:
    for name, child in module.named_modules():
        if getattr(child, "track_running_stats", False):
            kind = type(child).__name__
            raise BadInput(
                f"model: layer {name!r} is a {kind} with running statistics, which would not travel with the "
                "model; use GroupNorm or LayerNorm, or track_running_stats=False"
            )


class Net:
    """A module's forward pass as a function of its parameters, in training and in evaluation mode."""

    def __init__(self, build: Callable[[], nn.Module], dtype: torch.dtype, device: torch.device) -> None:
        self.build, self.dtype, self.device = build, dtype, device
        template = self._fresh(0)
        _refuse_running_statistics(template)
        _key_dropout(template)
        self.convolutions = any(isinstance(m, nn.modules.conv._ConvNd) for m in template.modules())
        self._keys = [name for name, m in template.named_modules() if isinstance(m, KeyedDropout)]
        template.requires_grad_(False).to(device)
        self._train, self._eval = template.train(), copy.deepcopy(template).eval()

    def _fresh(self, seed: int) -> nn.Module:
        """A new module, initialised from `seed` alone; the global generator is left as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.build().to(self.dtype)

    def init(self, seeds: Sequence[int]) -> Params:
        """Initial parameters, lane l from seeds[l]: leaves [L, ...]."""
        made = {seed: dict(self._fresh(seed).named_parameters()) for seed in dict.fromkeys(seeds)}
        first = made[seeds[0]]
        return {name: torch.stack([made[s][name].detach() for s in seeds]).to(self.device) for name in first}

    def size(self) -> int:
        """Numbers in one lane's parameters."""
        return sum(p.numel() for p in self._train.parameters())

    def activations(self, sample: Tensor) -> int:
        """Numbers that the layers put out for one sample [...]: what a step keeps for its backward pass."""
        total = 0

        def count(_module: nn.Module, _inputs: object, output: object) -> None:
            nonlocal total
            total += output.numel() if isinstance(output, Tensor) else 0

        hooks = [m.register_forward_hook(count) for m in self._eval.modules() if not list(m.children())]
        with torch.no_grad():
            self._eval(sample.unsqueeze(0))
        for hook in hooks:
            hook.remove()
        return total

    def train(self, params: Params, key: Tensor, x: Tensor) -> Tensor:
        """One lane's forward pass with dropout keyed by `key` (a scalar)."""
        keys = {f"{name}.key" if name else "key": key for name in self._keys}
        output: Tensor = functional_call(self._train, {**params, **keys}, (x,))
        return output

    def evaluate(self, params: Params, x: Tensor) -> Tensor:
        """One lane's forward pass without dropout."""
        output: Tensor = functional_call(self._eval, params, (x,))
        return output
