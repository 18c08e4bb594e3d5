"""What measurements can show: intervals over seeds, paired differences, what the test set's size allows, how many."""

from baton.verdict.difference import Difference, difference
from baton.verdict.needed import rows_needed, seeds_needed
from baton.verdict.rows import Rows, answered, bounded, sampling_error
from baton.verdict.seeds import LEVEL, Interval, interval
from baton.verdict.several import Several, holm, several

__all__ = [
    "LEVEL",
    "Difference",
    "Interval",
    "Rows",
    "Several",
    "answered",
    "bounded",
    "difference",
    "holm",
    "interval",
    "rows_needed",
    "sampling_error",
    "seeds_needed",
    "several",
]
