"""Layers that know lanes, and torch modules turned into functions over lanes."""

from baton.nn.dropout import KeyedDropout
from baton.nn.net import Net
from baton.nn.over_lanes import forwards, gradients, looped, mapped, traced

__all__ = ["KeyedDropout", "Net", "forwards", "gradients", "looped", "mapped", "traced"]
