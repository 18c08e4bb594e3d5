"""How things are named, written and coloured, the same in figures, tables and page."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from baton.evaluate import EXACT
from baton.names import split
from baton.setting import ROOMS
from baton.study import Study

METRICS = {
    "test_loss": "test loss",
    "test_accuracy": "test accuracy (%)",
    "train_loss": "training loss of the participants",
    "train_accuracy": "training accuracy of the participants (%)",
    "train_random_loss": "training loss of random clients",
    "train_random_accuracy": "training accuracy of random clients (%)",
    "distance": "distance to the optimum",
    "objective_gap": "objective gap",
}
LETTERS = {"clients": "M", "participants": "S", "local_steps": "K", "rounds": "R", "batch_size": "b"}  # the paper's
# Okabe and Ito's palette, which the colour-blind can tell apart.
ALGORITHM_COLOURS = {"sequential": "#D55E00", "parallel": "#0072B2"}
OTHER_COLOURS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")


def value(x: Any) -> str:
    """A setting's value as one writes it."""
    return f"{x:g}" if isinstance(x, float) else str(x)


def number(x: float, metric: str) -> str:
    """A metric's value with the digits that mean something."""
    if np.isnan(x):
        return "diverged"
    if metric.endswith("accuracy"):
        return f"{x:.2f}"
    if metric in EXACT:
        return f"{x:.1e}" if x else "0"
    return f"{x:.4f}" if 1e-3 <= abs(x) < 1e4 or not x else f"{x:.1e}"


def short(field: str, x: Any) -> str:
    """`parallel:weighting=size` -> `parallel`; a number says whose it is."""
    if not field:
        return "all runs"
    if field in ROOMS:
        return split(field, x, ROOMS[field])[0]
    return f"{field} = {value(x)}"


def called(study: Study, field: str, x: Any) -> str:
    """A value of a field in words: the study's own name for it, or `K = 5`."""
    named = study.labels.get((field, x))
    return named or f"{LETTERS.get(field, field)} = {value(x)}"


def labels(field: str, lines: Sequence[Any]) -> dict[Any, str]:
    """A name for each line: short, or in full where two would be named alike."""
    names = {line: short(field, line) for line in lines}
    times = Counter(names.values())
    return {line: name if times[name] == 1 else value(line) for line, name in names.items()}


def colours(field: str, lines: Sequence[Any]) -> dict[Any, str]:
    """Sequential and parallel keep their colours everywhere; nothing else takes them."""
    taken: dict[str, Any] = {}
    if field == "algorithm":
        for line in sorted(lines, key=len):  # plain `parallel` before `parallel:weighting=size`
            if short(field, line) in ALGORITHM_COLOURS:
                taken.setdefault(ALGORITHM_COLOURS[short(field, line)], line)
    found = {line: colour for colour, line in taken.items()}
    rest = [line for line in lines if line not in found]
    return found | {line: OTHER_COLOURS[i % len(OTHER_COLOURS)] for i, line in enumerate(rest)}


def seconds(x: float) -> str:
    """A length of time."""
    minutes, rest = divmod(round(x), 60)
    if minutes < 1:
        return f"{x:.1f} s"
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
