"""What every method of the reference is: a model, and what a round makes of it."""

from collections.abc import Sequence

import numpy as np

from reference.federation import BOTH, CLIENT, SERVER, Answer, Federation
from reference.problems import Array

Drawers = dict[str, Array]  # prefix of the names in state.safetensors -> [..., n]


class Method:
    """One method on one run; x is the model."""

    copies = False  # whether the server keeps copies of the model that the method begins with

    def __init__(self, federation: Federation, x: Array) -> None:
        self.fed, self.x = federation, x

    def order(self, number: int, drawn: list[int]) -> list[int]:
        """Return a round's order, from what the schedule drew."""
        return drawn

    def round(self, number: int, order: list[int]) -> None:
        """Run a round."""
        raise NotImplementedError

    def ends(self, number: int) -> str:
        """Return who holds the model after a round."""
        return SERVER

    def drawers(self) -> Drawers:
        """Return what server and clients keep."""
        return {}

    def model_of(self, client: int) -> Array:
        """Return the model that a client uses."""
        return self.x

    # --- the two ways through a round

    def side_by_side(self, **how: object) -> list[Answer]:
        """Train everybody from the server's model."""
        return [self.fed.train(self.x, place, by=self.fed.holder, **how) for place in range(len(self.fed.order))]

    def chain(self, x: Array, end_up: bool, by: str = "") -> Array:
        """Hand a model from client to client; end_up: the last one's goes to the server."""
        last = len(self.fed.order) - 1
        for place in range(last + 1):
            by = CLIENT if place else by or self.fed.holder
            x = self.fed.train(x, place, by=by, up=end_up and place == last).x
        return x


def weigh(answers: Sequence[Answer], weighting: str) -> Array:
    """Return what each answer counts: 1, or its samples; 0 where nothing came back."""
    return np.array([a.came * (a.samples if weighting == "size" else 1) for a in answers], dtype=float)


def mean(models: Sequence[Array], weights: Array) -> Array:
    """Return the weighted mean; where nothing counts, the plain mean of what was given out."""
    return np.average(models, axis=0, weights=weights if weights.sum() > 0 else np.ones(len(weights)))


def average(answers: Sequence[Answer], weighting: str = "uniform") -> Array:
    """Return the mean of what came back."""
    return mean([a.x for a in answers], weigh(answers, weighting))


__all__ = ["BOTH", "CLIENT", "SERVER", "Answer", "Drawers", "Federation", "Method", "average", "mean", "weigh"]
