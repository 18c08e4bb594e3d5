"""A run's last evaluations as a table."""

from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from baton.cli.table import Column, fitting
from baton.cli.table import lines as laid

if TYPE_CHECKING:
    from baton.store import Metrics, Run

LAST = 10  # evaluations shown
SENT = ("bytes_up", "bytes_down", "bytes_peer")
LATER = ("train_random_loss", "train_random_accuracy")  # of least interest: the first to go where all does not fit


def lines(found: "Run", room: int) -> list[str]:
    """The rounds and what was measured, as far as it fits; what does not is named below."""
    names = [name for name, x in found.metrics.items() if _tells(found.metrics, name)]
    names.sort(key=lambda name: (name in LATER) + 2 * (name in SENT))
    rounds = found.metrics["round"][-LAST:]
    columns = [Column("round", [f"{r:.0f}" for r in rounds])]
    columns += [Column(_head(name), _cells(found, name)) for name in names]
    shown = fitting(columns, room - 2)
    said = [f"  {line}" for line in laid(shown, room - 2)]
    left = [name.replace("_", " ") for name in names[len(shown) - 1 :]]
    if left:
        text = f"not shown: {', '.join(left)}; 'baton show --json' has all"
        said += ["", *wrap(text, room, initial_indent="  ", subsequent_indent="  ")]
    return said


def _tells(metrics: "Metrics", name: str) -> bool:
    """Whether it was measured, and is neither zero throughout nor the same as another, as with S = M."""
    x, twin = metrics[name], metrics.get(name.replace("_random", ""))
    if name == "round" or name.startswith(("site_", "class_")):  # these have tables of their own
        return False
    if not (x == x).any() or (name in SENT and not (x > 0).any()):
        return False
    return name not in LATER or twin is None or not np.array_equal(x, twin, equal_nan=True)


def _head(name: str) -> str:
    *first, last = name.split("_")
    return f"{' '.join(first)}\n{last}" if first else last


def _cells(found: "Run", name: str) -> list[str]:
    rounds = found.metrics["round"][-LAST:]
    values = found.metrics[name][-LAST:]
    return ["" if x != x and r != found.diverged else _number(name, x) for r, x in zip(rounds, values, strict=True)]


def _number(name: str, x: float) -> str:
    if name in SENT and x == x:
        for unit in ("B", "kB", "MB", "GB"):
            if x < 1000:
                return f"{x:.3g} {unit}"
            x /= 1000
        return f"{x:,.1f} TB"
    return f"{x:.2f}" if name.endswith("accuracy") else f"{x:.4g}"
