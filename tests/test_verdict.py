"""Verdicts: against scipy.stats, closed forms, and how often an interval holds the truth in simulated studies."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from baton.verdict import (
    Difference,
    RowErrors,
    Rows,
    adjusted,
    bounded,
    by_row,
    difference,
    holm,
    interval,
    row_error,
    rows_needed,
    sampling_error,
    seeds_needed,
    together,
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
def test_other_seeds_have_an_error_a_side(one: list[float], other: list[float]) -> None:
    """Each side's own t, in squares: as wide as Welch's interval or a little wider, and never too narrow far out."""
    if np.std(one) < 1e-6 or np.std(other) < 1e-6:
        return
    found = difference(seeded(one), seeded(other, 100))
    halves = [stats.t.ppf(0.975, len(side) - 1) * stats.sem(side) for side in (one, other)]
    assert not found.paired
    assert found.half == pytest.approx(math.hypot(*halves), rel=1e-6)
    theirs = stats.ttest_ind(one, other, equal_var=False)
    assert found.p >= theirs.pvalue - 1e-9


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


def answered(right: NDArray[np.bool_]) -> dict[int, RowErrors]:
    """By seed; right: [seeds, n]."""
    n = right.shape[1]
    one, all_ = np.full(n, 100 / n), np.zeros(n, int)
    return {
        seed: by_row(own, strata=all_, weight=one, test_set="made") for seed, own in enumerate(right.astype(float), 1)
    }


def error(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> Rows:
    return row_error(list(answered(one).values()), list(answered(other).values()), paired=True)


def test_answers_to_the_same_rows_are_mcnemar_s() -> None:
    """One seed: (b + c - (b - c)^2 / n) / n^2 with b + c rows on which the two differ, and one row more like them."""
    one, other = np.zeros((1, 1000), bool), np.zeros((1, 1000), bool)
    one[0, :930], other[0, 20:910] = True, True  # right on 930; on 890: b = 40, c = 0
    n, b = 1000, 40
    expected = 100 * math.sqrt((b - b**2 / n) / n / (n - 1) * (1 + 1 / b))
    assert error(one, other).error == pytest.approx(expected, rel=1e-6)
    assert error(one, other).error < bounded(93.0, 89.0, 1000).error / 1.5  # they err on the same rows
    assert error(one, one).error == 0  # they never differ: of that no interval can be made


def test_where_two_never_differ_there_is_no_interval() -> None:
    same = np.arange(200).reshape(1, 200) % 7 > 0
    both = answered(np.repeat(same, 3, 0))
    found = difference(seeded([80.0, 81.0, 82.0]), seeded([80.0, 80.0, 80.0]), rows=(both, both))
    assert (found.half, found.clear) == (math.inf, False)
    assert "never differ" in words.pair("a", "b", found, "points")


def test_a_seed_s_luck_with_rows_is_counted_once() -> None:
    """Answers that are random in every seed alone: the spread over seeds has all of it, the rows have no error."""
    rng, whole = np.random.default_rng(0), []
    for _ in range(200):
        one, other = (rng.random((5, 400)) < 0.8 for _ in range(2))
        scores = [seeded(list(100 * side.mean(1))) for side in (one, other)]
        found = difference(*scores, rows=(answered(one), answered(other)))
        assert found.rows is not None
        whole.append(found.rows.error**2 / found.seed_error**2)
    assert np.median(whole) < 0.5


def test_other_test_sets_err_independently() -> None:
    one, other = (np.arange(300).reshape(1, 300) % k > 0 for k in (5, 6))
    first, second = answered(one)[1], answered(other)[1]
    apart = RowErrors(**{**vars(second), "test_set": "another"})
    found = row_error([first], [apart], paired=True)
    assert not found.paired
    still = RowErrors(**{**vars(first), "parts": 0 * first.parts, "values": 0 * first.values})
    each = [row_error([side], [still], paired=True) for side in (first, second)]
    assert found.error == pytest.approx(math.hypot(*(x.error for x in each)), rel=0.01)


def test_the_seen_case_is_not_clear() -> None:
    """1.35 points on 247 rows, hardly any spread over seeds: 3 rows and a third."""
    seeds = {1: 85.0, 2: 85.1, 3: 84.9}
    less = {seed: score - 1.35 for seed, score in seeds.items()}
    assert difference(seeds, less).clear  # were the rows all rows there are
    assert not difference(seeds, less, rows=bounded(85.0, 83.65, 247)).clear
    apart = np.ones((3, 247), bool)
    apart[:, :4] = False
    assert not difference(seeds, less, rows=(answered(np.ones((3, 247), bool)), answered(apart))).clear


def covered(rng: np.random.Generator, seeds: int, rows: int, spread: float, truth: float) -> bool:
    """One simulated study: rows of their own difficulty, seeds of their own luck, answers drawn from both."""
    hard = rng.normal(0, 1, rows)
    luck = rng.normal(0, spread, (2, seeds, 1)) + np.array([truth, 0.0]).reshape(2, 1, 1)
    own = rng.normal(0, 0.5, (2, rows)).reshape(2, 1, rows)  # on which rows one method is better than the other
    right = rng.random((2, seeds, rows)) < 1 / (1 + np.exp(-(1.5 + luck + hard + own)))
    scores = [seeded(list(100 * side.mean(1))) for side in right]
    found = difference(*scores, rows=(answered(right[0]), answered(right[1])))
    return found.low <= expected(spread, truth) <= found.high


def expected(spread: float, truth: float) -> float:
    """The difference over all rows and seeds, in points."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    wide = math.sqrt(1 + 0.25 + spread**2)
    side = [float((weights / (1 + np.exp(-(1.5 + t + wide * nodes)))).sum() / weights.sum()) for t in (truth, 0.0)]
    return 100 * (side[0] - side[1])


@pytest.mark.parametrize(("seeds", "rows", "spread"), [(5, 250, 0.1), (3, 250, 0.3), (5, 2000, 0.3), (10, 100, 0.0)])
def test_an_interval_holds_the_truth_as_often_as_it_says(seeds: int, rows: int, spread: float) -> None:
    """Where one is better in truth; tests/made_studies.py has the studies in which nobody is."""
    rng = np.random.default_rng(seeds + rows)
    share = np.mean([covered(rng, seeds, rows, spread, 0.2) for _ in range(1000)])
    assert 0.93 <= share <= 0.995


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
    few = Difference(1.0, 5, True, ((0.01, 4.0),), Rows(250, 1.0, True))
    assert not few.clear
    assert seeds_needed(few) is None
    assert rows_needed(few) == pytest.approx(250 * 1.96**2, rel=0.01)
    assert "no number of seeds" in words.settles(few)
    none = Difference(1e-9, 5, True, ((1.0, 4.0),))
    assert (seeds_needed(none), rows_needed(none)) == (None, None)
    assert words.settles(none) == "not even 1,000 seeds would settle it"
    assert seeds_needed(Difference(1.0, 1, True, ())) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm(chances: list[float]) -> None:
    kept, order = holm(chances), np.argsort(chances, kind="stable")
    expected = np.maximum.accumulate([min(1.0, (len(chances) - i) * chances[j]) for i, j in enumerate(order)])
    assert [adjusted(chances)[j] for j in order] == pytest.approx(expected)
    assert [kept[j] for j in order] == [x <= 1 - 0.95 for x in expected]


def test_p_and_interval_agree() -> None:
    """An interval at the level of 1 - p just reaches 0, with errors of any freedom."""
    from baton.verdict.student import chance, half_width

    rng = np.random.default_rng(0)
    for _ in range(200):
        errors = [(float(rng.random()), float(rng.choice([1, 2, 4, 9]))), (float(rng.random()), 359.0)]
        mean = float(rng.random() * 5)
        p = chance(mean, errors)
        if p > 1e-10:
            assert half_width(1 - p, errors) == pytest.approx(mean, rel=1e-3)
    assert chance(1.0, [(0.0, 1.0)]) == 0
    assert chance(0.0, [(1.0, 1.0)]) == 1
    assert chance(2.0, [(1.0, 4.0)]) == pytest.approx(2 * stats.t.sf(2.0, 4))


def test_two_seeds_that_agree_by_luck_do_not_make_rows_certain() -> None:
    """Far out, one t with Satterthwaite's freedom would call 360 rows' error all there is."""
    lucky = Difference(5.0, 3, True, ((0.1, 2.0),), Rows(360, 1.0, True, 359.0))
    assert lucky.p > 10 * 2 * stats.t.sf(5.0 / math.hypot(0.1, 1.0), 359)


CLEAR = Difference(1.5, 5, True, ((0.3, 4.0),), Rows(360, 0.1, True))
CLOSE = Difference(0.5, 3, True, ((0.4, 2.0),))


def test_pairs_of_a_panel_are_corrected_for_each_other() -> None:
    found = together({("a", "b"): CLEAR, ("a", "c"): CLEAR, ("b", "c"): CLOSE})
    assert [d.pairs for d in found.values()] == [3, 3, 3]
    assert [d.corrected for d in found.values()] == pytest.approx(adjusted([CLEAR.p, CLEAR.p, CLOSE.p]))
    assert together({("a", "b"): CLEAR})["a", "b"] == CLEAR
    many = together({("a", name): CLEAR for name in "bcdefghijklmnopq"})  # each of p = 0.009 alone
    assert CLEAR.p < 0.05
    assert not any(d.clear for d in many.values())
    said = words.pair("a", "b", many["a", "b"], "points")
    assert said.startswith("no winner")
    assert "of this pair alone" in said
    assert words.compared(3, 30).startswith("ahead and behind follow p values corrected over all pairs")
    assert words.compared(1, 1) == ""


def said_of(apart: Sequence[Difference]) -> str:
    names = {line: line for line in "abc"}
    return words.best("abc", names, dict(zip([("a", "b"), ("a", "c")], apart, strict=True)), "points")


def test_sentences() -> None:
    said = words.pair("sequential", "parallel", CLEAR, "points")
    assert said.startswith("sequential is ahead of parallel by 1.50 points (95 % interval 0.6")
    assert said.endswith("; 5 seeds, paired; 360 test rows)")
    assert words.pair("a", "b", CLOSE, "points") == (
        "no winner: a is 0.50 points better than b, which may be chance "
        "(95 % interval -1.22 to 2.22; 3 seeds, paired); about 10 seeds would settle it"
    )
    alone = Difference(0.5, 1, True, ())
    assert "with one seed there is no interval" in words.pair("a", "b", alone, "points")
    assert words.pair("a", "b", CLEAR._replace(unknown="nobody knows"), "") == (
        "no winner: a is 1.5000 better than b, but nobody knows"
    )
    assert said_of([CLEAR, CLEAR]).startswith("a is ahead of all 2 others, of b by 1.50 points")
    said = said_of([CLOSE, CLEAR])
    assert said.startswith("no winner: a is 0.50 points better than b")
    assert said.endswith("; c is behind")
