"""Verdicts: against scipy.stats, closed forms, and how often an interval holds the truth in simulated studies."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from baton.verdict import (
    Difference,
    Rows,
    answered,
    bounded,
    difference,
    holm,
    interval,
    rows_needed,
    sampling_error,
    seeds_needed,
    several,
    words,
)

SCORES = st.lists(st.floats(0, 100), min_size=2, max_size=12)


def seeded(values: list[float], first: int = 1) -> dict[int, float]:
    return dict(enumerate(values, first))


@given(SCORES)
def test_an_interval_is_student_s(values: list[float]) -> None:
    found, error = interval(values), float(stats.sem(values))
    assert found.mean == pytest.approx(np.mean(values))
    assert found.half == pytest.approx(stats.t.ppf(0.975, len(values) - 1) * error, abs=1e-9)
    assert (found.low, found.high) == pytest.approx((found.mean - found.half, found.mean + found.half))


def test_one_seed_has_no_interval() -> None:
    found = interval([80.0])
    assert (found.mean, found.half, found.low, found.high, found.seeds) == (80.0, math.inf, 80.0, 80.0, 1)


@given(SCORES, SCORES)
def test_shared_seeds_are_paired(one: list[float], other: list[float]) -> None:
    n = min(len(one), len(other))
    apart = np.subtract(one[:n], other[:n])
    if apart.std() < 1e-6:
        return
    found = difference(seeded(one[:n]), seeded(other[:n]))
    theirs = stats.ttest_rel(one[:n], other[:n])
    assert (found.paired, found.seeds) == (True, n)
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-6)
    low, high = theirs.confidence_interval()
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-6, abs=1e-6)
    assert difference(seeded(one[:n]), seeded(other[:n]), -1).mean == pytest.approx(-found.mean)


@given(SCORES, SCORES)
def test_other_seeds_are_welch_s(one: list[float], other: list[float]) -> None:
    if np.std(one) < 1e-6 or np.std(other) < 1e-6:
        return
    found = difference(seeded(one), seeded(other, 100))
    theirs = stats.ttest_ind(one, other, equal_var=False)
    assert not found.paired
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-6)
    low, high = theirs.confidence_interval()
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-6, abs=1e-6)


def test_of_partly_shared_seeds_the_shared_ones_are_compared() -> None:
    found = difference({1: 80.0, 2: 82.0, 3: 99.0}, {1: 79.0, 2: 80.0, 9: 0.0})
    assert (found.seeds, found.paired, found.mean) == (2, True, 1.5)
    alone = difference({1: 80.0}, {1: 79.0, 2: 80.0})
    assert (alone.seeds, alone.mean, alone.half, alone.clear, alone.p) == (1, 1.0, math.inf, False, 1.0)


def test_an_accuracy_s_own_error() -> None:
    assert sampling_error(80.0, 10_000) == pytest.approx(100 * math.sqrt(0.8 * 0.2 / 10_000), rel=1e-3)
    assert sampling_error(100.0, 247) > 0  # all right is not known for sure
    found = bounded(80.0, 90.0, 247)
    assert found.error == pytest.approx(math.hypot(sampling_error(80.0, 247), sampling_error(90.0, 247)))


def test_answers_to_the_same_rows_are_mcnemar_s() -> None:
    """One seed: (b + c - (b - c)^2 / n) / n^2 with b + c rows on which the two differ, and half a row more of each."""
    one, other = np.zeros((1, 1000), bool), np.zeros((1, 1000), bool)
    one[0, :930], other[0, 20:910] = True, True  # right on 930; on 890: b = 40, c = 0
    n, b, c = 1002, 40.5, 0.5
    assert answered(one, other).error == pytest.approx(100 * math.sqrt((b + c - (b - c) ** 2 / n) / n**2), rel=1e-3)
    assert answered(one, other).error < bounded(93.0, 89.0, 1000).error / 1.5  # they err on the same rows
    assert answered(one, one).error > 0


def test_the_seen_case_is_not_clear() -> None:
    """1.35 points on 247 rows, hardly any spread over seeds: 3 rows and a third."""
    seeds = {1: 85.0, 2: 85.1, 3: 84.9}
    less = {seed: score - 1.35 for seed, score in seeds.items()}
    assert difference(seeds, less).clear  # were the rows all rows there are
    assert not difference(seeds, less, rows=bounded(85.0, 83.65, 247)).clear
    apart = np.ones((3, 247), bool)
    apart[:, :4] = False
    assert not difference(seeds, less, rows=answered(np.ones((3, 247), bool), apart)).clear


def covered(rng: np.random.Generator, seeds: int, rows: int, spread: float, truth: float) -> bool:
    """One simulated study: rows of their own difficulty, seeds of their own luck, answers drawn from both."""
    hard = rng.normal(0, 1, rows)
    luck = rng.normal(0, spread, (2, seeds, 1)) + np.array([truth, 0.0]).reshape(2, 1, 1)
    own = rng.normal(0, 0.5, (2, rows)).reshape(2, 1, rows)  # on which rows one method is better than the other
    right = rng.random((2, seeds, rows)) < 1 / (1 + np.exp(-(1.5 + luck + hard + own)))
    scores = [seeded(list(100 * side.mean(1))) for side in right]
    found = difference(*scores, rows=answered(*right))
    return found.low <= expected(spread, truth) <= found.high


def expected(spread: float, truth: float) -> float:
    """The difference over all rows and seeds, in points."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    wide = math.sqrt(1 + 0.25 + spread**2)
    side = [float((weights / (1 + np.exp(-(1.5 + t + wide * nodes)))).sum() / weights.sum()) for t in (truth, 0.0)]
    return 100 * (side[0] - side[1])


@pytest.mark.parametrize(("seeds", "rows", "spread"), [(5, 250, 0.1), (3, 250, 0.3), (5, 2000, 0.3), (10, 100, 0.0)])
def test_an_interval_holds_the_truth_as_often_as_it_says(seeds: int, rows: int, spread: float) -> None:
    rng = np.random.default_rng(seeds + rows)
    share = np.mean([covered(rng, seeds, rows, spread, 0.2) for _ in range(1000)])
    assert 0.93 <= share <= 0.995  # 0.95; the two errors share what is random in both, which makes it careful


def test_seeds_alone_would_hold_it_far_too_seldom() -> None:
    """The same with the test set forgotten, as ± over seeds does."""
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(300):
        right = rng.random((2, 1, 100)) < 0.8  # one draw of rows: every seed answers it alike
        scores = [seeded(list(100 * np.repeat(side.mean(1), 5) + rng.normal(0, 0.1, 5))) for side in right]
        missed += difference(*scores).clear
        assert difference(*scores, rows=bounded(80.0, 80.0, 100)).half > 9
    assert missed > 200


@pytest.mark.parametrize("n", [3, 5])
def test_the_seeds_that_would_settle_it(n: int) -> None:
    rng = np.random.default_rng(n)
    one = seeded(list(rng.normal(0.4, 1.0, n)))
    found = difference(one, dict.fromkeys(one, 0.0))
    wanted = seeds_needed(found)
    assert wanted is not None
    spread = found.seed_error * math.sqrt(n)
    for count, enough in ((wanted, True), (wanted - 1, False)):
        half = stats.t.ppf(0.975, count - 1) * spread / math.sqrt(count)
        assert (abs(found.mean) > half) == enough


def test_where_no_number_of_seeds_is_enough() -> None:
    few = Difference(1.0, 5, True, 0.01, 4, Rows(250, 1.0, True))
    assert not few.clear
    assert seeds_needed(few) is None
    assert rows_needed(few) == pytest.approx(250 * 1.96**2, rel=0.01)
    assert "no number of seeds" in words.settles(few)
    none = Difference(1e-9, 5, True, 1.0, 4)
    assert (seeds_needed(none), rows_needed(none)) == (None, None)
    assert words.settles(none) == "not even 1,000 seeds would settle it"
    assert seeds_needed(Difference(1.0, 1, True, math.inf, 1)) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm(chances: list[float]) -> None:
    kept = holm(chances)
    order = np.argsort(chances, kind="stable")
    adjusted = np.maximum.accumulate([(len(chances) - i) * chances[j] for i, j in enumerate(order)])
    assert [kept[j] for j in order] == [bool(x <= 0.05) for x in adjusted] or any(abs(adjusted - 0.05) < 1e-12)


def test_chance_is_told() -> None:
    sure, not_ = Difference(5.0, 5, True, 1.0, 4), Difference(1.0, 5, True, 1.0, 4)
    found = several([sure, *[not_] * 19])
    assert (found.made, found.clear, found.chance, found.holm) == (20, 1, pytest.approx(1.0), 0)
    assert words.compared(found).startswith("20 comparisons were made, each at 95 %: 1 differs")
    assert words.compared(several([sure])) == ""


def test_sentences() -> None:
    clear = Difference(1.5, 5, True, 0.3, 4, Rows(360, 0.1, True))
    said = words.pair("sequential", "parallel", clear, "points")
    assert said.startswith("sequential is ahead of parallel by 1.50 points (95 % interval 0.6")
    assert said.endswith("; 5 seeds, paired; 360 test rows)")
    close = Difference(0.5, 3, True, 0.4, 2)
    assert words.pair("a", "b", close, "points") == (
        "no winner: a is 0.50 points better than b, which may be chance "
        "(95 % interval -1.22 to 2.22; 3 seeds, paired); about 10 seeds would settle it"
    )
    alone = Difference(0.5, 1, True, math.inf, 1)
    assert "with one seed there is no interval" in words.pair("a", "b", alone, "points")
    names = {line: line for line in "abc"}
    apart = {("a", "b"): clear, ("a", "c"): clear}
    assert words.best("abc", names, apart, "points").startswith("a is ahead of all 2 others, of b by 1.50 points")
    said = words.best("abc", names, {("a", "b"): close, ("a", "c"): clear}, "points")
    assert said.startswith("no winner: a is 0.50 points better than b")
    assert said.endswith("; c is behind")
