"""How often intervals hold the truth, and who is falsely ahead, in simulated studies: the table of docs/compare.md."""

import pytest

from made_studies import COVERAGE, FALSE_WINNERS, METRICS, ROWS, STUDIES, VARIANCES, simulate


@pytest.mark.parametrize("metric", METRICS)
def test_one_cell_of_each_metric(metric: str) -> None:
    """Fewer studies than below, so that chance may do more."""
    rows = 100 if metric.startswith("site_") else 50
    cells = simulate(variances="unequal", rows=rows, studies=300, names=(metric,), methods=(5,), seeds=(3,))
    (cell,) = cells.values()
    assert cell.known > 100
    assert cell.coverage >= COVERAGE
    assert cell.false_winners <= 0.05 + 2 * (0.05 * 0.95 / cell.studies) ** 0.5


@pytest.mark.long
@pytest.mark.parametrize("variances", VARIANCES)
@pytest.mark.parametrize("rows", ROWS[::-1])
def test_every_cell(rows: int, variances: str) -> None:
    """For five metrics, with 2, 5 and 10 methods, 3 and 10 seeds."""
    for cell, found in simulate(variances=variances, rows=rows, studies=STUDIES).items():
        assert found.false_winners <= FALSE_WINNERS, f"{cell}: {found.false_winners:.1%} false winners"
        if found.known:
            assert found.coverage >= COVERAGE, f"{cell}: the interval holds the truth in {found.coverage:.1%}"
