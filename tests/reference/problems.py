"""What is trained: small data sets, and models whose loss and gradient are written out in NumPy."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

Array = NDArray[np.float64]


class Samples(NamedTuple):
    """Rows to learn from, or to test on."""

    x: Array  # [n, d]
    y: Array  # [n] the class, as a whole number, or the number to predict
    weight: Array  # [n] what a row counts in training


class Model(Protocol):
    """A model as functions of its parameters, one flat vector."""

    def outputs(self, params: Array, x: Array) -> Array:
        """Return what the model puts out for rows x [n, d]."""

    def losses(self, outputs: Array, y: Array) -> Array:
        """Return the loss of each row [n]."""

    def gradient(self, params: Array, batch: Samples) -> Array:
        """Return the gradient of the weighted mean of the rows' losses."""


class Dense:
    """Linear layers with one activation between them; the parameters are W1, b1, W2, b2, ... in a row."""

    def __init__(self, widths: tuple[int, ...], activation: str, classes: int) -> None:
        self.widths, self.activation, self.classes = widths, activation, classes

    def layers(self, params: Array) -> list[tuple[Array, Array]]:
        """Return the views (W [out, in], b [out]) of each layer."""
        found, at = [], 0
        for wide, out in zip(self.widths, self.widths[1:], strict=False):
            weight = params[at : at + wide * out].reshape(out, wide)
            found.append((weight, params[at + wide * out : at + wide * out + out]))
            at += wide * out + out
        return found

    def outputs(self, params: Array, x: Array) -> Array:
        """Return the logits [n, classes], or one number a row [n, 1]."""
        return self._forward(params, x)[-1]

    def _forward(self, params: Array, x: Array) -> list[Array]:
        """Return the input of every layer, then the output of the last."""
        inputs = [x]
        layers = self.layers(params)
        for number, (weight, bias) in enumerate(layers):
            z = inputs[-1] @ weight.T + bias
            last = number == len(layers) - 1
            inputs.append(z if last else np.maximum(z, 0) if self.activation == "relu" else np.tanh(z))
        return inputs

    def losses(self, outputs: Array, y: Array) -> Array:
        """Return the cross-entropy, or the squared error."""
        if not self.classes:
            return (outputs[:, 0] - y) ** 2
        logits = _two(outputs)
        top = logits.max(1, keepdims=True)
        log_sum = top[:, 0] + np.log(np.exp(logits - top).sum(1))
        return log_sum - logits[np.arange(len(y)), y.astype(int)]

    def gradient(self, params: Array, batch: Samples) -> Array:
        """Return the gradient by the chain rule, layer by layer from the last."""
        inputs = self._forward(params, batch.x)
        slope = self._slope(inputs[-1], batch.y) * (batch.weight / batch.weight.sum())[:, None]
        parts: list[Array] = []
        for number in reversed(range(len(self.widths) - 1)):
            weight = self.layers(params)[number][0]
            parts = [(slope.T @ inputs[number]).ravel(), slope.sum(0), *parts]
            at = inputs[number]
            slope = (slope @ weight) * ((at > 0) if self.activation == "relu" else 1 - at**2)
        return np.concatenate(parts)

    def _slope(self, outputs: Array, y: Array) -> Array:
        """Return d loss / d outputs of each row."""
        if not self.classes:
            return 2 * (outputs - y[:, None])
        logits = _two(outputs)
        share = np.exp(logits - logits.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        share[np.arange(len(y)), y.astype(int)] -= 1
        return share if outputs.shape[1] > 1 else share[:, 1:]


def _two(outputs: Array) -> Array:
    """Return logits of both classes; one logit is that of class 1."""
    return outputs if outputs.shape[1] > 1 else np.concatenate([np.zeros_like(outputs), outputs], 1)


class Quadratic:
    """F_m(x) = x' A x / 2 + c' x; a row is (A, c, 0), and the parameters are x."""

    def _parts(self, params: Array, x: Array) -> tuple[Array, Array]:
        d = len(params)
        return x[:, : d * d].reshape(-1, d, d), x[:, d * d : -1]

    def outputs(self, params: Array, x: Array) -> Array:
        """Return F_m at the parameters for each row."""
        hessian, c = self._parts(params, x)
        return np.einsum("i,nij,j->n", params, hessian, params) / 2 + c @ params

    def losses(self, outputs: Array, y: Array) -> Array:
        """Return the outputs, which are the losses."""
        return outputs

    def gradient(self, params: Array, batch: Samples) -> Array:
        """Return the mean of A x + c."""
        hessian, c = self._parts(params, batch.x)
        return np.average(hessian @ params + c, axis=0, weights=batch.weight)


def tanh_net(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Build a network of three layers: a user's own module."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(shape[0], 4), nn.Tanh(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, max(1, classes))
    )


def one_logit(shape: tuple[int, ...], classes: int) -> nn.Module:  # noqa: ARG001
    """Build a linear model of two classes with one output."""
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], 1))
