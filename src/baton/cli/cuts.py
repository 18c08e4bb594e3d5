"""Where models may be cut, for `baton list models`."""

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from baton.nn.cut import Cut

SAMPLE, COLOUR = (1, 28, 28), (3, 32, 32)  # what the paper trains them on
SAMPLES = {"vgg9": COLOUR, "resnet18": COLOUR}


def legal(model: str, dataset: str | None) -> "tuple[tuple[int, ...], list[Cut]]":
    """A sample's shape and the legal cuts of a model: on a data set's samples, or on those of the paper's."""
    import torch

    from baton import datasets, models
    from baton.nn import Net
    from baton.nn.cut import cuts

    cpu = torch.device("cpu")
    if dataset:
        data = datasets.load(dataset, datasets.source(dataset).clients)
        sample, classes = datasets.prepared(data, data.x[:1], torch.float32), data.classes
        numbers = datasets.tells_numbers(data)
    else:
        sample, classes, numbers = torch.zeros(1, *SAMPLES.get(model, SAMPLE)), 10, False
    build = models.factory(model, tuple(sample.shape[1:]), classes, numbers)
    return tuple(sample.shape[1:]), cuts(Net(build, torch.float32, cpu, sample))


def every() -> "dict[str, tuple[tuple[int, ...], list[Cut]]]":
    """Of all registered models; the quadratic has no layers, nor images to take."""
    from baton.models import MODELS

    return {name: legal(name, None) if name != "quadratic" else ((), []) for name in MODELS}


def lines(model: str, shape: tuple[int, ...], found: "list[Cut]") -> list[str]:
    """A model's cuts as a table."""
    head = f"{model} on samples of {_by(shape)}" if shape else model
    if not found:
        return [f"{head}: cannot be cut"]
    wide = max(len("cut"), *(len(cut.name) for cut in found))
    kinds = max(len("behind"), *(len(cut.layer) for cut in found))
    rows = [
        f"{head}:",
        f"  {'cut':{wide}}  {'behind':{kinds}}  {'smashed data':>22}  {'client side':>12}  {'server side':>12}",
    ]
    for cut in found:
        smashed = f"{_by(cut.shape)} = {prod(cut.shape):,}" if len(cut.shape) > 1 else f"{prod(cut.shape):,}"
        rows.append(f"  {cut.name:{wide}}  {cut.layer:{kinds}}  {smashed:>22}  {cut.client:>12,}  {cut.server:>12,}")
    return rows


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
