"""Keyed draws: fixed vectors, uniformity, independence, and drawing without replacement.

Every draw here has a fixed key, so a p-value is a constant of the code: it cannot fail by chance, only by a change.
"""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from baton import rng

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="it draws on a CUDA device, and there is none here")
UNLIKELY = 1e-4
MASK = (1 << 64) - 1


def keys(count: int, *words: int, seed: int = 5) -> torch.Tensor:
    return rng.bits(torch.tensor(seed), *words, torch.arange(count))


def unsigned(x: torch.Tensor) -> np.ndarray:
    return x.numpy().view(np.uint64)


def fits(observed: np.ndarray, expected: np.ndarray | None = None) -> bool:
    """Chi-square on counts, from both sides: draws that are too even are no random draws either."""
    p = stats.chisquare(np.asarray(observed).ravel(), expected).pvalue
    return bool(UNLIKELY < p < 1 - UNLIKELY)


def independent(table: np.ndarray) -> bool:
    p = stats.chi2_contingency(table).pvalue
    return bool(UNLIKELY < p < 1 - UNLIKELY)


# The bits


def splitmix_finaliser(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def reference(seed: int, *words: int) -> int:
    """The same hash in unbounded integers, as an unsigned word."""
    h = splitmix_finaliser((seed + 0x9E3779B97F4A7C15) & MASK)
    for word in words:
        h = splitmix_finaliser(((h ^ (word & MASK)) + 0x9E3779B97F4A7C15) & MASK)
    return h


word64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(seed=word64, words=st.lists(word64, max_size=5))
def test_bits_are_those_of_unbounded_integer_arithmetic(seed: int, words: list[int]) -> None:
    drawn = rng.bits(torch.tensor(seed), *words)
    assert int(drawn) & MASK == reference(seed, *words)
    assert int(rng.bits(torch.tensor(seed), *map(torch.tensor, words))) == int(drawn)


@pytest.mark.parametrize(
    ("seed", "words", "expected"),
    [
        (0, (), 0xE220A8397B1DCDAF),  # the first output of SplitMix64 from state 0, as published
        (1, (), 0x910A2DEC89025CC1),  # and from state 1
        (1, (1, 0), 0x5775264A9A7E1B09),
        (12345, (2, 499, 9), 0x6C3964BAEBE9DC15),
        ((1 << 63) - 1, (7, 3, 2, 1), 0xFB98E9193A22E668),
    ],
)
def test_bits_are_fixed_for_ever(seed: int, words: tuple[int, ...], expected: int) -> None:
    assert int(rng.bits(torch.tensor(seed), *words)) & MASK == expected


def test_words_broadcast_against_the_seed() -> None:
    seed, client = torch.tensor([3, 4]).view(2, 1), torch.arange(5)
    grid = rng.bits(seed, rng.SHUFFLE, 7, client)
    assert grid.shape == (2, 5)
    for i, j in ((0, 0), (1, 3)):
        assert int(grid[i, j]) & MASK == reference(3 + i, rng.SHUFFLE, 7, j)


@pytest.mark.parametrize("by", [1, 11, 24, 31, 40, 63])
def test_shift_is_logical_not_arithmetic(by: int) -> None:
    x = torch.tensor([-1, -(1 << 63), 1, 1 << 62, -12345])
    assert rng.shift(x, by).tolist() == [(int(v) & MASK) >> by for v in x]


def test_purposes_differ() -> None:
    purposes = [rng.ORDER, rng.SHUFFLE, rng.REPLACEMENT, rng.DROPOUT, rng.AUGMENT, rng.EVALUATE, rng.DATA]
    assert len(set(purposes)) == len(purposes)


# The same on both kinds of device


@CUDA
def test_cuda_draws_the_bits_that_the_cpu_draws() -> None:
    seed = torch.arange(-50_000, 50_000)
    here, there = (rng.bits(s, rng.SHUFFLE, 3, torch.arange(100_000, device=s.device)) for s in (seed, seed.cuda()))
    assert torch.equal(here, there.cpu())
    assert torch.equal(rng.uniform(here), rng.uniform(there).cpu())
    assert torch.equal(rng.below(here, 1_000_003), rng.below(there, 1_000_003).cpu())


@CUDA
def test_cuda_draws_the_normals_of_the_cpu_to_rounding() -> None:
    key = keys(100_000)
    torch.testing.assert_close(
        rng.normal(key.cuda(), torch.float64).cpu(), rng.normal(key, torch.float64), rtol=1e-13, atol=1e-13
    )


@CUDA
@pytest.mark.parametrize(("n", "count"), [(5, 3), (100, 100), (600, 20), (5_000, 20), (10**12, 50)])
def test_cuda_chooses_whom_the_cpu_chooses(n: int, count: int) -> None:
    key = keys(2_000)
    assert torch.equal(rng.choose(key, n, count), rng.choose(key.cuda(), n, count).cpu())


@CUDA
def test_cuda_shuffles_as_the_cpu_shuffles() -> None:
    key, n = keys(3_000), torch.arange(3_000) % 1_500
    here = rng.passes(key, n, 30, 0, 1_499)
    assert torch.equal(here, rng.passes(key.cuda(), n.cuda(), 30, 0, 1_499).cpu())


# Uniform


@pytest.mark.parametrize("byte", range(8))
def test_every_byte_is_uniform(byte: int) -> None:
    values = (unsigned(keys(200_000, rng.ORDER)) >> np.uint64(8 * byte)) & np.uint64(255)
    assert fits(np.bincount(values.astype(np.int64), minlength=256))


def test_every_bit_is_balanced() -> None:
    drawn = unsigned(keys(100_000, rng.DROPOUT))
    ones = np.array([((drawn >> np.uint64(i)) & np.uint64(1)).sum() for i in range(64)], dtype=np.float64)
    z = (ones - 50_000) / np.sqrt(25_000)
    assert np.abs(z).max() < 4.5
    assert 0.5 < z.std() < 1.5


@pytest.mark.parametrize("n", [2, 3, 7, 10, 100, 1_000])
def test_below_is_uniform(n: int) -> None:
    assert fits(np.bincount(rng.below(keys(100_000, n), n), minlength=n))


def test_below_takes_one_bound_a_key_and_stays_below_it() -> None:
    n = torch.arange(1, 2_001)
    drawn = rng.below(keys(2_000), n)
    assert bool(((drawn >= 0) & (drawn < n)).all())
    assert int(drawn[0]) == 0
    assert 0.45 < float((drawn / n).mean()) < 0.55


def test_uniform_is_uniform_on_its_24_bit_grid_and_never_one() -> None:
    u = rng.uniform(keys(200_000, rng.EVALUATE))
    assert u.dtype == torch.float32
    assert fits(np.histogram(u.numpy(), bins=128, range=(0, 1))[0])
    assert torch.equal(u * 2**24, (u * 2**24).round())
    assert float(rng.uniform(torch.tensor(-1))) == 1 - 2.0**-24
    assert float(rng.uniform(torch.tensor(0))) == 0.0


def test_normal_is_standard_normal() -> None:
    z = rng.normal(keys(200_000, rng.AUGMENT), torch.float64).numpy()
    assert stats.kstest(z, "norm").pvalue > UNLIKELY
    n = len(z)
    assert abs(z.mean()) < 4 / n**0.5
    assert abs(z.var() - 1) < 4 * (2 / n) ** 0.5
    assert abs(stats.skew(z)) < 4 * (6 / n) ** 0.5
    assert abs(stats.kurtosis(z)) < 4 * (24 / n) ** 0.5


def test_normal_is_finite_at_the_ends_of_the_key() -> None:
    ends = torch.tensor([0, -1, 1, (1 << 63) - 1, -(1 << 63), 2047])
    for dtype in (torch.float32, torch.float64):
        z = rng.normal(ends, dtype)
        assert z.dtype == dtype
        assert bool(z.isfinite().all())


# Independent


AT = torch.arange(1_000, 201_000)
SEED = torch.tensor(1)
NEIGHBOURS = {  # pairs of draws whose keys are as alike as they get in a run
    "last word + 1": lambda: (rng.bits(SEED, 1, AT), rng.bits(SEED, 1, AT + 1)),
    "seed + 1": lambda: (rng.bits(AT), rng.bits(AT + 1)),
    "purpose": lambda: (rng.bits(SEED, rng.ORDER, AT), rng.bits(SEED, rng.SHUFFLE, AT)),
    "round": lambda: (rng.bits(SEED, rng.SHUFFLE, AT, 3), rng.bits(SEED, rng.SHUFFLE, AT + 1, 3)),
    "client": lambda: (rng.bits(SEED, rng.SHUFFLE, AT, 3), rng.bits(SEED, rng.SHUFFLE, AT, 4)),
    "round and client swapped": lambda: (rng.bits(SEED, 2, AT, AT + 1), rng.bits(SEED, 2, AT + 1, AT)),
    "one word more": lambda: (rng.bits(SEED, AT), rng.bits(SEED, AT, 0)),
    "seed and word swapped": lambda: (rng.bits(AT, 7), rng.bits(torch.tensor(7), AT)),
}


@pytest.mark.parametrize("pair", NEIGHBOURS)
@pytest.mark.parametrize("nibble", [0, 7, 15])
def test_neighbouring_keys_draw_independent_bits(pair: str, nibble: int) -> None:
    a, b = (((unsigned(x) >> np.uint64(4 * nibble)) & np.uint64(15)).astype(int) for x in NEIGHBOURS[pair]())
    table = np.bincount(16 * a + b, minlength=256).reshape(16, 16)
    assert fits(table)
    assert independent(table)


@pytest.mark.parametrize("pair", NEIGHBOURS)
def test_neighbouring_keys_are_uncorrelated(pair: str) -> None:
    first, second = NEIGHBOURS[pair]()
    assert not bool((first == second).any())
    a, b = rng.uniform(first).double().numpy(), rng.uniform(second).double().numpy()
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / len(a) ** 0.5


@pytest.mark.parametrize("which", ["seed", "first word", "last word"])
def test_flipping_any_bit_of_a_key_flips_half_of_the_draw(which: str) -> None:
    base = torch.arange(2_000)
    fixed = torch.tensor(11)
    draw = {
        "seed": lambda x: rng.bits(x, 1, 2),
        "first word": lambda x: rng.bits(fixed, x, 2),
        "last word": lambda x: rng.bits(fixed, 1, x),
    }[which]
    for bit in range(63):
        changed = unsigned(draw(base) ^ draw(base ^ (1 << bit)))
        flips = np.bitwise_count(changed).astype(float)
        assert abs(flips.mean() - 32) < 5 * 4 / len(base) ** 0.5  # binomial(64, 1/2): deviation 4
        each = np.array([((changed >> np.uint64(i)) & np.uint64(1)).mean() for i in range(64)])
        assert np.abs(each - 0.5).max() < 5.5 * 0.5 / len(base) ** 0.5


# Drawing without replacement


def ordered_subsets(drawn: torch.Tensor, n: int, count: int) -> np.ndarray:
    """How often each ordered subset came up; fails on a draw that is none."""
    cells = {subset: i for i, subset in enumerate(permutations(range(n), count))}
    return np.bincount([cells[tuple(row)] for row in drawn.tolist()], minlength=len(cells))


SMALL = [(4, 2), (5, 5), (5, 3), (3, 1), (1, 1), (2, 2)]


@pytest.mark.parametrize(("n", "count"), SMALL)
def test_choose_is_uniform_over_ordered_subsets(n: int, count: int) -> None:
    counts = ordered_subsets(rng.choose(keys(40_000, n, count), n, count), n, count)
    assert counts.sum() == 40_000
    assert len(counts) == 1 or fits(counts)


@pytest.mark.parametrize(("n", "count"), [(4, 2), (5, 3), (6, 1), (7, 3)])
def test_the_sparse_way_is_uniform_over_ordered_subsets(n: int, count: int) -> None:
    drawn = rng._few_of_many(keys(60_000, n, count), torch.full((60_000,), n), count)
    assert fits(ordered_subsets(drawn, n, count))


@pytest.mark.parametrize("count", [1, 2, 3, 10, 100, 1_000, 10_000, 1_000_000])
def test_the_sparse_way_never_runs_out_of_draws(count: int) -> None:
    """More than count + 40 repeats among its draws would leave too few; each draw repeats with at most draws / n."""
    draws, n = 2 * count + 40, rng.dense_up_to(count) + 1
    assert stats.binom.logsf(count + 40, draws, draws / n) < -64 * np.log(2)


@pytest.mark.parametrize("n", [1_000_000, 10**12, 10**15])
def test_choosing_a_few_of_a_million_gives_no_one_twice(n: int) -> None:
    drawn = rng.choose(keys(20_000, n), n, 10)
    assert drawn.shape == (20_000, 10)
    assert bool(((drawn >= 0) & (drawn < n)).all())
    assert bool((drawn.sort(1).values.diff(dim=1) > 0).all())
    bins = (drawn.double() / n * 20).long()
    for place in (0, 4, 9):
        assert fits(torch.bincount(bins[:, place], minlength=20).numpy())
    pairs = torch.bincount(20 * bins[:, 0] + bins[:, 1], minlength=400).view(20, 20).numpy()
    assert fits(pairs)
    assert independent(pairs)


def test_repeats_are_drawn_again_just_above_the_dense_way() -> None:
    """Here about two draws in a hundred repeat, so that taking the draws as they come would show."""
    count = 40
    n = rng.dense_up_to(count) + 1
    key = keys(5_000)
    drawn = rng.choose(key, n, count)
    assert torch.equal(drawn, rng._few_of_many(key, torch.full_like(key, n), count))
    assert bool((drawn.sort(1).values.diff(dim=1) > 0).all())
    assert fits(torch.bincount(drawn.flatten(), minlength=n).numpy())


class Largest(torch.utils._python_dispatch.TorchDispatchMode):
    """The most elements that any tensor made inside had."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for x in found if isinstance(found, tuple) else (found,):
            self.elements = max(self.elements, x.numel() if isinstance(x, torch.Tensor) else 0)
        return found


def elements(n: int, count: int) -> int:
    with Largest() as largest:
        rng.choose(keys(1), n, count)
    return largest.elements


@pytest.mark.parametrize("count", [1, 10, 100])
def test_the_cost_of_choosing_does_not_grow_with_the_clients(count: int) -> None:
    assert elements(10**6, count) == elements(10**15, count) == 2 * count + 40
    assert max(elements(n, count) for n in range(count, 40 * count + 1_000, 97)) <= 17 * count + 640


@given(n=st.integers(1, 900), count=st.integers(1, 60), word=st.integers(0, 10**6))
def test_passes_are_permutations_one_after_another(n: int, count: int, word: int) -> None:
    count = min(count, 3 * n)
    drawn = rng.passes(keys(3, word), torch.full((3,), n), count, n, n)
    assert drawn.shape == (3, count)
    for row in drawn.tolist():
        for begin in range(0, count, n):
            one = row[begin : begin + n]
            assert len(set(one)) == len(one)
            assert set(one) <= set(range(n))


def test_the_second_pass_is_fresh() -> None:
    """Uniform over pairs of orders: nothing of the first pass shows in the second."""
    drawn = rng.passes(keys(40_000), torch.full((40_000,), 3), 6, 3, 3)
    cells = {order: i for i, order in enumerate(permutations(range(3)))}
    table = np.zeros((6, 6))
    for row in drawn.tolist():
        table[cells[tuple(row[:3])], cells[tuple(row[3:])]] += 1
    assert fits(table)
    assert independent(table)


@given(
    n=st.lists(
        st.one_of(st.integers(0, 30), st.integers(500, 3_000), st.integers(10**5, 10**9)), min_size=1, max_size=6
    ),
    count=st.integers(1, 40),
    word=st.integers(0, 10**6),
)
def test_an_entry_does_not_depend_on_its_neighbours_or_on_the_bounds(n: list[int], count: int, word: int) -> None:
    key, size = keys(len(n), word), torch.tensor(n)
    together = rng.passes(key, size, count, min(n), max(n))
    loose = rng.passes(key, size, count, 0, 2 * max(n) + 1)
    assert torch.equal(together, loose)
    for i, own in enumerate(n):
        alone = rng.passes(key[i : i + 1], size[i : i + 1], count, own, own)
        assert torch.equal(alone[0], together[i])


@given(n=st.integers(1, 200), count=st.integers(1, 20), more=st.integers(0, 20), word=st.integers(0, 10**6))
def test_a_longer_draw_of_few_goes_on_where_the_shorter_ends(n: int, count: int, more: int, word: int) -> None:
    key, size = keys(2, word), torch.full((2,), n)
    assert torch.equal(rng.passes(key, size, count + more, n, n)[:, :count], rng.passes(key, size, count, n, n))


def test_choosing_leaves_its_key_alone() -> None:
    key = keys(10)
    before = key.clone()
    rng.choose(key, 7, 7)
    rng.choose(key, 10**6, 7)
    assert torch.equal(key, before)
