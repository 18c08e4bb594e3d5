"""Keyed draws: every random number is a pure function of (seed, purpose, round, client, ...).

Counter-based: words are absorbed one after another into a 64-bit hash (Stafford's mix 13, the finaliser of SplitMix64)
in wrapping int64 tensor arithmetic, so that CPU and GPU give the same bits and nothing keeps state.
"""

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

# What a draw is for. Two draws with different purposes are independent, whatever their other words.
ORDER, SHUFFLE, REPLACEMENT, DROPOUT, AUGMENT, EVALUATE, DATA, SMASH, LEAK, FAILURE, REROUTE, BALANCE = range(1, 13)
GROUP, AWAY, PRIVACY, OWN = 13, 14, 15, 16
VALIDATION = 101


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word


_STEP = _signed(0x9E3779B97F4A7C15)
_MUL1 = _signed(0xBF58476D1CE4E5B9)
_MUL2 = _signed(0x94D049BB133111EB)
_LOW = [(1 << (64 - s)) - 1 for s in range(64)]  # masks that make >> a logical shift


def shift(x: Tensor, by: int) -> Tensor:
    """x >>> by: int64 has only the arithmetic shift."""
    return (x >> by) & _LOW[by]


def _mix(x: Tensor) -> Tensor:
    x = (x ^ shift(x, 30)) * _MUL1
    x = (x ^ shift(x, 27)) * _MUL2
    return x ^ shift(x, 31)


def bits(seed: Tensor, *words: int | Tensor) -> Tensor:
    """64 random bits as int64; seed and words broadcast against each other (words are whole numbers)."""
    h = _mix(seed + _STEP)
    for word in words:
        h = _mix((h ^ word) + _STEP)
    return h


def uniform(key: Tensor) -> Tensor:
    """[0, 1) in float32: the top 24 bits, exact on every device."""
    return shift(key, 40).to(torch.float32) * 2.0**-24


def normal(key: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """N(0, 1) by Box-Muller; log and cos may differ in the last place between devices."""
    u = (shift(key, 11).to(torch.float64) + 0.5) * 2.0**-53
    v = shift(bits(key, 1), 11).to(torch.float64) * 2.0**-53
    return (torch.sqrt(-2.0 * torch.log(u)) * torch.cos(2.0 * torch.pi * v)).to(dtype)


def named(
    seed: Tensor, round: int | Tensor, shape: Sequence[int], purpose: str, dtype: torch.dtype, *, gaussian: bool = False
) -> Tensor:
    """Return what an algorithm draws for a purpose of its own, by a word: seed [L] -> [L, *shape]."""
    word = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:7], "big")
    lane = bits(seed, OWN, word, round)
    key = bits(lane.unsqueeze(-1), torch.arange(math.prod(shape), device=seed.device)).view(len(seed), *shape)
    return normal(key, dtype) if gaussian else uniform(key).to(dtype)


def below(key: Tensor, n: int | Tensor) -> Tensor:
    """Uniform on 0..n-1; the modulo's bias is n / 2^63."""
    return shift(key, 1) % n


def dense_up_to(count: int) -> int:
    """The largest n of which all elements are sorted, where `count` of them are wanted."""
    return 16 * count + 640


def passes(key: Tensor, n: Tensor, count: int, smallest: int, largest: int) -> Tensor:
    """The first `count` entries of endless fresh permutations of range(n), one after another; cost O(count), not O(n).

    key, n: [...] -> [..., count]. smallest and largest bound n and only spare work: what an entry is depends on its own
    key, n and count. Small n: elements sorted by (pass, random bits). Large n: independent draws, the first `count`
    different ones in the order drawn, which is the definition of drawing without replacement; 2 count + 40 draws hold
    that many different ones except with probability under 2^-64 when n > 16 count + 640.
    """
    limit = dense_up_to(count)
    if largest <= 1:
        return torch.zeros(*key.shape, count, dtype=torch.int64, device=key.device)
    if smallest > limit:
        return _few_of_many(key, n, count)
    dense = _sorted_passes(key, n, count, count + max(1, min(largest, limit)) - 1)
    if largest <= limit:
        return dense
    sparse = _few_of_many(key, n.clamp(min=limit + 1), count)
    return torch.where((n > limit).unsqueeze(-1), sparse, dense)


def whole_passes(key: Tensor, n: Tensor, count: int, largest: int) -> Tensor:
    """`count` fresh permutations of range(n), one after another, as `passes` has them; largest bounds n.

    key, n: [...] -> [..., count largest]; entries after the first count n are of no meaning.
    """
    width = count * max(1, largest)
    return _sorted_passes(key, n, width, width)


def _sorted_passes(key: Tensor, n: Tensor, count: int, width: int) -> Tensor:
    n = n.clamp(min=1).unsqueeze(-1)
    element = torch.arange(width, device=key.device)  # [width]: pass = element // n, item = element % n
    order = ((element // n) << 40) | shift(bits(key.unsqueeze(-1), element), 24)
    return order.argsort(dim=-1, stable=True)[..., :count] % n


def _few_of_many(key: Tensor, n: Tensor, count: int) -> Tensor:
    draws = 2 * count + 40
    drawn = below(bits(key.unsqueeze(-1), torch.arange(draws, device=key.device)), n.unsqueeze(-1))
    value, where = drawn.sort(dim=-1, stable=True)  # equal values stay in the order drawn
    again = torch.zeros_like(value, dtype=torch.bool)
    again[..., 1:] = value[..., 1:] == value[..., :-1]
    repeated = torch.zeros_like(again).scatter(-1, where, again)
    return drawn.gather(-1, repeated.to(torch.int8).argsort(dim=-1, stable=True)[..., :count])


def choose(key: Tensor, n: int, count: int) -> Tensor:
    """`count` of n without replacement, in random order: uniform over ordered subsets. key [...] -> [..., count]."""
    return passes(key, torch.full_like(key, n), count, n, n)
