"""A run in words: what it was trained on, how, and what comes next."""

from pathlib import Path
from shlex import quote
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from baton.cli.table import width
from baton.fields import FIELDS, Fields

if TYPE_CHECKING:
    from baton.setting import Setting
    from baton.store import Run

SPOKEN = {  # what a name stands for; others are their own names
    "digits": "handwritten digits",
    "mnist": "MNIST",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cinic10": "CINIC-10",
    "breast_cancer": "breast cancer at four made-up hospitals",
    "heart": "heart disease at four hospitals",
    "csv": "a table",
    "npz": "arrays",
    "npy": "arrays",
    "images": "pictures",
    "data": "arrays",
    "sites": "rows at real sites",
    "quadratic": "two quadratics",
    "quadratic_random": "random quadratics",
    "quadratic_sides": "quadratics that pull to two sides",
    "logistic": "logistic regression",
    "mlp": "a multilayer perceptron",
    "lenet5": "LeNet-5",
    "cnn": "a convolutional network",
    "vgg9": "VGG-9",
    "resnet18": "ResNet-18",
}
SAID = {"dataset", "partition", "model", "algorithm", "clients", "participants", "local_steps", "epochs", "rounds"}
SAID |= {"batch_size", "lr", "seed"}
TITLE = 10  # characters of what stands at the left


def spoken(spec: str) -> str:
    """`handwritten digits (digits)`."""
    words = SPOKEN.get(spec.partition(":")[0])
    return f"{words} ({spec})" if words else spec


def titled(title: str, text: str, room: int) -> list[str]:
    """A text that fits, its title at the left."""
    left = f"{title:<{TITLE}}"
    return wrap(text, room, initial_indent=left, subsequent_indent=" " * TITLE, break_on_hyphens=False)


def about(s: "Setting", room: int) -> list[str]:
    """A setting in sentences that fit."""
    held = f"{s.clients:,} clients, {s.partition}"
    who = "all of them a round" if s.participants == s.clients else f"{s.participants:,} of them a round"
    unit, on = ("pass" if s.epochs == 1 else "passes", "in") if s.epochs else ("steps", "on")
    steps = f"{s.length} {unit} {on} batches of {s.batch_size}"
    parts = {
        "data": f"{spoken(s.dataset)}; {held}",
        "model": spoken(s.model) if s.model.partition(":")[0] != "quadratic" else f"the point x itself ({s.model})",
        "training": f"{s.algorithm}, {who}, {steps}, {s.rounds:,} rounds, lr = {s.lr:g}, seed {s.seed}",
        "also": ", ".join(f"{name} = {_value(x)}" for name, x in _unusual(s).items()),
    }
    return [line for title, text in parts.items() for line in titled(title, text, room)]


def _unusual(s: "Setting") -> dict[str, Any]:
    """The fields that are not said elsewhere and not as they always are; nothing is looked up, imported or loaded."""
    from baton.datasets import DATASETS

    known = DATASETS.get(s.dataset.partition(":")[0])
    usual = {name: getattr(Fields, name) for name in FIELDS} | {"dtype": known.dtype if known else Fields.dtype}
    return {name: x for name in FIELDS if name not in SAID and (x := getattr(s, name)) != usual[name]}


def apart(s: "Setting") -> dict[str, Any]:
    """The fields in which a setting is not what its data set alone would make it."""
    from baton.setting import Setting

    plain = Setting(dataset=s.dataset)
    usual = {name: getattr(plain, name) for name in FIELDS} | {"dataset": FIELDS["dataset"].default}
    usual["participants"] = s.clients
    usual |= {"local_steps": 0} if s.epochs else {}
    return {name: x for name in FIELDS if (x := getattr(s, name)) != usual[name]}


def command(word: str, fields: dict[str, Any], runs: Path) -> str:
    """A command with these fields as flags."""
    flags = [_flag(name, x) for name, x in fields.items()] + [f"--runs {runs}"] * (runs != Path("runs"))
    lines = [f"  baton {word}"]
    for flag in flags:
        if len(lines[-1]) + len(flag) + 3 > width():
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {flag}"
    return "\n".join(lines)


def following(found: "Run", runs: Path, known: set[str]) -> list[str]:
    """What to do next: commands, each after what it is for. known: the commands that there are."""
    s = found.setting
    fields = apart(s)
    if found.diverged is not None:
        return ["Next, a smaller learning rate:", command("run", fields | {"lr": float(f"{s.lr / 10:.3g}")}, runs)]
    rest = {name: x for name, x in fields.items() if name not in ("algorithm", "lr", "clip", "seed")}
    other = "parallel" if s.algorithm.partition(":")[0] == "sequential" else "sequential"
    said = ["Next, the same by the other method:", command("run", fields | {"algorithm": other}, runs)]
    if "compare" in known:
        said += ["Both at their best learning rates, over seeds:", command("compare", rest, runs)]
    return [*said, "All runs, best first:", command("list runs --sort result", {}, runs)]


def _flag(name: str, x: Any) -> str:
    letter, text = FIELDS[name].letter, _value(x)
    text = text if not isinstance(x, float) or float(text) == x else repr(x)
    return f"-{letter} {quote(text)}" if letter else f"--{name.replace('_', '-')} {quote(text)}"


def _value(x: Any) -> str:
    return f"{x:g}" if isinstance(x, float) else str(x)
