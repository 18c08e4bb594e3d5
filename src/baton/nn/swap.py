"""Layers of a module exchanged for others."""

from collections.abc import Callable

from torch import nn


def swap(module: nn.Module, other: Callable[[nn.Module], nn.Module | None]) -> None:
    """Every layer below module for which `other` gives one is replaced by it, in the order of the tree."""
    layers = [(parent, name, child) for parent in module.modules() for name, child in parent.named_children()]
    for parent, name, child in layers:
        new = other(child)
        if new is not None:
            setattr(parent, name, new)
