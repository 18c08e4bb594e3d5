"""The ends of a symmetric operator's spectrum from its products with vectors: power iteration that keeps its iterates.

Power iteration takes the last of v, Hv, H^2 v, ...; here the best combination of all of them is taken (Lanczos with
full reorthogonalisation), which is never worse and does not stall where +a and -a are both eigenvalues. Many operators
and several starts each go side by side.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from baton import rng

Apply = Callable[[Tensor], Tensor]  # [..., d] -> [..., d], each row by its own symmetric operator

BASIS_BYTES = 512 << 20  # what the kept iterates may take
WIDEST, NARROWEST, LOOK = 64, 8, 8  # iterates kept at most, at least; steps between looks at the residual
CYCLES = 8  # how often the iteration begins again from the best vectors so far


class Ends(NamedTuple):
    """Rayleigh quotients and their residuals |Hv - theta v|.

    The smallest eigenvalue is at most `low`, the largest at least `high`: that is certain. Some eigenvalue lies within
    the residual of each: it is the extreme one unless every random start was blind to that one's direction.
    """

    low: Tensor
    high: Tensor
    low_error: Tensor
    high_error: Tensor

    def norm(self) -> tuple[Tensor, Tensor]:
        """The largest eigenvalue in absolute value, and its residual."""
        top = self.high >= -self.low
        return torch.where(top, self.high, -self.low), torch.where(top, self.high_error, self.low_error)


def ends(
    apply: Apply,
    operators: int,
    size: int,
    tolerance: float = 1e-3,
    starts: int = 3,
    device: torch.device | None = None,
) -> Ends:
    """Of each operator [operators], the best of its starts; apply takes [operators, starts, size].

    Stops when the end that is larger in absolute value has a residual of at most tolerance times itself, for every
    operator; the other end is what came along.
    """
    fits = BASIS_BYTES // (8 * operators * starts * size)
    width = min(size, max(NARROWEST, min(WIDEST, fits)))
    shape = (operators, starts, size)
    vector, found = _normal(0, shape, device), None
    for cycle in range(CYCLES):
        new, vector = _cycle(apply, vector, width, tolerance, cycle)
        found = new if found is None else _better(found, new)
        if width == size or _settled(*found.norm(), tolerance):
            break
    assert found is not None
    return _over_starts(found)


def _normal(word: int, shape: tuple[int, ...], device: torch.device | None) -> Tensor:
    """Keyed by its place, so that the same operator is met with the same vectors each time."""
    place = torch.arange(torch.Size(shape).numel(), device=device)
    return rng.normal(rng.bits(place, rng.DATA, word), torch.float64).view(shape)


def _cycle(apply: Apply, vector: Tensor, width: int, tolerance: float, cycle: int) -> tuple[Ends, Tensor]:
    """Up to `width` steps from vector [..., d]; also says where to begin again."""
    basis = vector.new_zeros(*vector.shape[:-1], width, vector.shape[-1])
    inside = vector.new_zeros(*vector.shape[:-1], width, width)  # the operator between basis vectors
    basis[..., 0, :] = vector / vector.norm(dim=-1, keepdim=True)
    for j in range(width):
        known = basis[..., : j + 1, :]
        image = apply(basis[..., j, :].contiguous())
        image, inside[..., : j + 1, j] = _orthogonal(known, image)
        length = image.norm(dim=-1)
        last = j + 1 == width
        if last or (j + 1) % LOOK == 0:
            value, weight = _ritz(inside[..., : j + 1, : j + 1])
            end = (value[..., -1] >= -value[..., 0]).long() * j  # place of the one larger in absolute value
            rest = length * weight[..., j, :].gather(-1, end.unsqueeze(-1)).squeeze(-1).abs()
            if last or _settled(value.abs().amax(-1), rest, tolerance / 2):
                return _ends(apply, known, weight)
        scale = inside[..., : j + 1, : j + 1].abs().amax((-1, -2))
        stuck = length <= 1e-13 * scale.clamp(min=1e-300)  # nothing new: the iterates span an invariant subspace
        if bool(stuck.any()):
            fresh, _ = _orthogonal(known, _normal(1 + cycle * width + j, tuple(vector.shape), vector.device))
            image = torch.where(stuck.unsqueeze(-1), fresh, image)
        basis[..., j + 1, :] = image / image.norm(dim=-1, keepdim=True)
    raise AssertionError


def _settled(value: Tensor, error: Tensor, tolerance: float) -> bool:
    """Whether the best start of each operator [operators, starts] has converged."""
    best = value.argmax(-1, keepdim=True)
    return bool((error.gather(-1, best) <= tolerance * value.gather(-1, best)).all())


def _orthogonal(basis: Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
    """What of vector [..., d] lies outside the basis [..., k, d], and its coordinates inside; twice, for rounding."""
    total = torch.zeros_like(basis[..., 0])
    for _ in range(2):
        inside = (basis @ vector.unsqueeze(-1)).squeeze(-1)
        vector = vector - (inside.unsqueeze(-2) @ basis).squeeze(-2)
        total = total + inside
    return vector, total


def _ritz(inside: Tensor) -> tuple[Tensor, Tensor]:
    upper = inside.triu()
    value, weight = torch.linalg.eigh((upper + upper.mT) - torch.diag_embed(upper.diagonal(dim1=-2, dim2=-1)))
    return value, weight


def _ends(apply: Apply, basis: Tensor, weight: Tensor) -> tuple[Ends, Tensor]:
    """Both ends with residuals taken from the operator itself, not from the recurrence."""
    found, vectors = [], []
    for place in (0, -1):
        v = (weight[..., place].unsqueeze(-2) @ basis).squeeze(-2)
        v = v / v.norm(dim=-1, keepdim=True)
        image = apply(v)
        value = (v * image).sum(-1)
        found += [value, (image - value.unsqueeze(-1) * v).norm(dim=-1)]
        vectors.append(v)
    return Ends(found[0], found[2], found[1], found[3]), vectors[0] + vectors[1]


def _better(old: Ends, new: Ends) -> Ends:
    """The further out is the better, since a Rayleigh quotient never passes the spectrum's end."""
    low, high = new.low <= old.low, new.high >= old.high
    return Ends(
        torch.where(low, new.low, old.low),
        torch.where(high, new.high, old.high),
        torch.where(low, new.low_error, old.low_error),
        torch.where(high, new.high_error, old.high_error),
    )


def _over_starts(each: Ends) -> Ends:
    low, high = each.low.argmin(-1, keepdim=True), each.high.argmax(-1, keepdim=True)
    places = (low, high, low, high)
    return Ends(*(field.gather(-1, at).squeeze(-1) for field, at in zip(each, places, strict=True)))
