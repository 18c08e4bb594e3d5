# mypy: ignore-errors
"""baton.rng inside kernels: the same bits."""

import triton
import triton.language as tl

STEP = tl.constexpr(0x9E3779B97F4A7C15)
MUL1 = tl.constexpr(0xBF58476D1CE4E5B9)
MUL2 = tl.constexpr(0x94D049BB133111EB)


@triton.jit
def _mix(x):
    x = (x ^ (x >> 30)) * MUL1
    x = (x ^ (x >> 27)) * MUL2
    return x ^ (x >> 31)


@triton.jit
def start(seed):
    """The hash of a seed (uint64), before any word."""
    return _mix(seed + STEP)


@triton.jit
def absorb(h, word):
    """One word more (uint64)."""
    return _mix((h ^ word) + STEP)


@triton.jit
def below(key, n: tl.constexpr):
    """Uniform on 0..n-1."""
    return ((key >> 1) % n).to(tl.int32)


@triton.jit
def uniform(key):
    """[0, 1) in float32."""
    return (key >> 40).to(tl.int32).to(tl.float32) * 5.9604644775390625e-08
