"""What is measured, by name: the columns of metrics.csv, in their order."""

import re
from collections.abc import Iterable

MEASURED = (  # at every evaluation
    "test_loss",
    "test_accuracy",
    "train_loss",
    "train_accuracy",
    "train_random_loss",
    "train_random_accuracy",
)
EXACT = ("distance", "objective_gap")  # of quadratics, at every round
HELD = ("validation_loss", "validation_accuracy", "validation_rows")  # at every evaluation, where samples are held back
BYTES = ("bytes_up", "bytes_down", "bytes_peer")  # sent since the run began, at every evaluation
REAL = (  # at real sites, since the run began, at every evaluation: bytes, seconds, and legs that did not come back
    "real_bytes_up",
    "real_bytes_down",
    "real_seconds",
    "lost_legs",
)
METRICS = (*MEASURED, *HELD, *EXACT, *BYTES, *REAL)
SITE = "site/"  # what the names of a metric at every site begin with in a history: [L, k] a round, in sites.csv


def held_back(name: str) -> str:
    """Return the column of the same metric on samples that clients hold back: of the test rows' columns another one."""
    if name.startswith("test_"):
        return f"validation_{name.removeprefix('test_')}"
    return f"validation_{name}" if name.startswith(("site_", "class_")) else name


def further(names: Iterable[str]) -> list[str]:
    """Columns of other metrics, those of the whole test set first."""
    other = {name for name in names if name not in METRICS and name != "round" and not name.startswith(SITE)}
    return sorted(other, key=lambda name: (not name.startswith("test_"), _in_order(name)))


def _in_order(name: str) -> tuple[str | int, ...]:
    """class_10 after class_9."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name))
