"""Legs whose ends are told as differential privacy asks."""

from baton.clients import Batches
from baton.lanes import Params
from baton.legs.base import Legs, Step, repeated
from baton.privacy import Draw, Protection, released

TOLD = "dp: a leg that stands still tells gradients, which it does not cover; none is right"


class Private:
    """Any legs; what is computed from their ends, at clients too, is computed from what is told."""

    def __init__(self, legs: Legs, protection: Protection, draw: Draw) -> None:
        """protection: one entry a leg [N]."""
        self.legs, self.protection, self.draw = legs, protection, draw
        self.way, self.outputs = legs.way, legs.outputs

    def train(self, x: Params, step: Step, batches: Batches) -> Params:
        """x after K steps, as it is told."""
        made = self.legs.train(x, step, batches)
        return released(repeated(x, len(step.lr)), made, *self.protection, self.draw)
