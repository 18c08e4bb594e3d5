"""How things are named, written and coloured, the same in figures, tables and page."""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from baton.names import split
from baton.setting import ROOMS, Setting
from baton.shown import cell, markdown, without_folders
from baton.store.columns import EXACT
from baton.study import Study, measured

METRICS = {
    "test_loss": "test loss",
    "test_accuracy": "test accuracy (%)",
    "validation_loss": "loss on what clients hold back",
    "validation_accuracy": "accuracy on what clients hold back (%)",
    "validation_rows": "samples that clients hold back",
    "train_loss": "training loss of the participants",
    "train_accuracy": "training accuracy of the participants (%)",
    "train_random_loss": "training loss of random clients",
    "train_random_accuracy": "training accuracy of random clients (%)",
    "distance": "distance to the optimum",
    "objective_gap": "objective gap",
}
LETTERS = {
    "clients": "M",
    "participants": "S",
    "local_steps": "K",
    "epochs": "E",
    "rounds": "R",
    "batch_size": "b",
}  # the paper's
HEADS = {"dataset": "Data set", "model": "Model", "partition": "Partition", "algorithm": "Algorithm"}
PRINTED = {  # as they are written in print
    "mnist": "MNIST",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cinic10": "CINIC-10",
    "mlp": "MLP",
    "cnn": "CNN",
    "lenet5": "LeNet-5",
    "vgg9": "VGG-9",
    "resnet18": "ResNet-18",
}
# Okabe and Ito's palette, which the colour-blind can tell apart.
ALGORITHM_COLOURS = {"sequential": "#D55E00", "parallel": "#0072B2"}
OTHER_COLOURS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")


MEASURES = {"auc": "AUC", "f1": "F1", "mse": "mean squared error", "mae": "mean absolute error", "r2": "R²"}
MEASURES |= {"brier": "Brier score", "calibration": "calibration error", "top5": "top-5 accuracy (%)"}
MEASURES |= {name: f"{name.replace('_', ' ')} (%)" for name in ("accuracy", "balanced_accuracy", "sensitivity")}
MEASURES |= {"specificity": "specificity (%)"}
OVER = {"mean": "mean over sites", "worst": "the worst site", "best": "the best site", "spread": "spread over sites"}


def metric(name: str) -> str:
    """A metric in words: `test AUC`, `AUC, the worst site`."""
    where, _, rest = name.partition("_")
    if where == "validation" and name not in METRICS:
        own = metric(rest) if rest.startswith(("site_", "class_")) else MEASURES.get(rest, rest)
        return f"{own} on what clients hold back"
    if name in METRICS or where not in ("test", "site", "class"):
        return METRICS.get(name, name)
    label, _, statistic = rest.rpartition("_")
    if where == "class":
        return f"accuracy of class {label} (%)"
    if where == "site" and statistic in OVER:
        return f"{MEASURES.get(label, label)}, {OVER[statistic]}"
    return f"test {MEASURES.get(rest, rest)}"


def value(x: Any) -> str:
    """A setting's value as one writes it; none: of an option that there is not."""
    return f"{x:g}" if isinstance(x, float) else "none" if x is None else str(without_folders(x))


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
    """A value of a field in words: the study's own name for it, `MNIST`, or `K = 5`."""
    if (field, x) in study.labels:
        return study.labels[field, x]
    if field in ("dataset", "model", "algorithm"):
        return names(study, field).get(x, value(x))
    return f"{LETTERS.get(field, field)} = {value(x)}"


def told(study: Study, fields: Mapping[str, Any]) -> list[str]:
    """Values of fields in words; a leg has K or E, and of the one that it has not nothing is said."""
    return [called(study, field, x) for field, x in fields.items() if x or field not in ("local_steps", "epochs")]


def names(study: Study, field: str) -> dict[Any, str]:
    """Each value of a field as it stands under the field's name: the study's own name for it, MNIST, 5, 10^-1.5."""
    found = study.values(field)
    if field in ROOMS:
        named = {x: PRINTED.get(name, name) for x, name in labels(field, found).items()}
    else:
        powers = {x: 2 * math.log10(x) for x in found if isinstance(x, float) and x > 0}
        halves = {x: round(power) for x, power in powers.items() if math.isclose(power, round(power), abs_tol=1e-9)}
        some = any(power % 2 for power in halves.values())  # 10^-1.5 among them: then 0.01 is 10^-2.0
        named = {x: f"10^{halves[x] / 2:.1f}" if some and x in halves else value(x) for x in found}
    if field == "clip":
        named |= {x: "none" for x in found if not x}
    return named | {x: study.labels[field, x] for x in found if (field, x) in study.labels}


def lines(study: Study) -> dict[Any, str]:
    """A name for each line of a study: `sequential`, `K = 5`, or the study's own."""
    field = study.report.lines
    if not field:
        return {"": short("", "")}
    found = names(study, field)
    own = {x for x in found if field in ROOMS or (field, x) in study.labels}
    return {x: name if x in own else f"{LETTERS.get(field, field)} = {name}" for x, name in found.items()}


def head(field: str) -> str:
    """What stands above the values of a field."""
    return HEADS.get(field, LETTERS.get(field, field))


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


def stem(name: str) -> str:
    """A file name that needs no quoting, in a shell or in a link."""
    return re.sub(r"[^\w.=-]+", "-", name).strip("-.") or "study"


def counted(n: int, what: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{n} {what}{'' if n == 1 else 's'}"


def last(n: int) -> str:
    """`the last evaluation`, `the last 3 evaluations`."""
    return "the last evaluation" if n == 1 else f"the last {n} evaluations"


def averaged(study: Study, settings: Iterable[Setting], most: int) -> str:
    """Return what is averaged of these runs: `the last 3 evaluations`, or `the last 2 to 10 evaluations`."""
    counts = {measured.averaged(s, study.report.metric, most) for s in settings}
    low, high = min(counts), max(counts)
    return last(high) if low == high else f"the last {low} to {high} evaluations"


def as_csv(lines: Iterable[Sequence[Any]]) -> bytes:
    """Lines of a CSV file, every digit kept; what is None stays empty, and no name is a formula."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([cell(x) for x in line] for line in lines)
    return text.getvalue().encode()


def as_md(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(_md(cell) for cell in line) + " |" for line in lines) + "\n"


def _md(text: str) -> str:
    return markdown(text).replace("|", "\\|").replace("\n", " ")
