"""What measurements can show: intervals over seeds, paired differences, what the test set's size allows, how many."""

from baton.verdict.difference import ONE_SEED, Apart, Difference, difference, together
from baton.verdict.needed import rows_needed, seeds_needed
from baton.verdict.rows import RowErrors, Rows, bounded, by_draws, by_row, row_error, sampling_error, scaled
from baton.verdict.seeds import LEVEL, Interval, interval
from baton.verdict.several import adjusted, holm

__all__ = [
    "LEVEL",
    "ONE_SEED",
    "Apart",
    "Difference",
    "Interval",
    "RowErrors",
    "Rows",
    "adjusted",
    "bounded",
    "by_draws",
    "by_row",
    "difference",
    "holm",
    "interval",
    "row_error",
    "rows_needed",
    "sampling_error",
    "scaled",
    "seeds_needed",
    "together",
]
