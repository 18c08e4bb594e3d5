"""Models by name: functions (shape, classes, *, options) -> torch.nn.Module.

`shape` is one sample's, `classes` the number of labels; 0: one number is to be told (regression), or the sample is its
own loss (quadratics). Any module works that has no state beside its parameters.
To add one: its file and one line in MODELS.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from baton import limits
from baton.errors import BadInput
from baton.models.cnn import cnn
from baton.models.lenet5 import lenet5
from baton.models.logistic import logistic
from baton.models.mlp import mlp
from baton.models.quadratic import quadratic
from baton.models.resnet18 import resnet18
from baton.models.vgg9 import vgg9
from baton.names import bind
from baton.usercode import call, place

MODELS: dict[str, Callable[..., nn.Module]] = {
    "quadratic": quadratic,
    "logistic": logistic,
    "mlp": mlp,
    "lenet5": lenet5,
    "cnn": cnn,
    "vgg9": vgg9,
    "resnet18": resnet18,
}
COPIES = 4  # of its parameters, at least: two modules, a state before a round and one after it
TELL_NUMBERS = (logistic, mlp)  # put out one number where there are no classes
IMAGES = (lenet5, cnn, vgg9, resnet18)  # models that need images, not rows


def factory(spec: str, shape: tuple[int, ...], classes: int, numbers: bool = False) -> Callable[[], nn.Module]:
    """What builds the module a spec names; numbers: whether one number a sample is to be told."""
    name, build, params = bind("model", spec, MODELS)
    if numbers and name in MODELS and build not in TELL_NUMBERS:
        raise BadInput(f"model: {name!r} tells classes, and here a number is to be told; logistic or mlp is right")
    if classes == 0 and not numbers and name in MODELS and build is not quadratic:
        raise BadInput(f"model: {name!r} takes labelled samples; the quadratic data sets train 'quadratic'")
    if build in IMAGES and len(shape) != 3:
        raise BadInput(f"model: {name!r} takes images of shape (channels, height, width), not {shape}; mlp takes any")

    if name in MODELS:
        _check_size(spec, partial(build, shape, classes, **params))

    def module() -> nn.Module:
        made: nn.Module = call("model", name, build, shape, classes, **params)
        if not isinstance(made, nn.Module):
            raise BadInput(f"model: {name!r} gives a {type(made).__name__}; a Module is right{place(name, build)}")
        if next(made.parameters(), None) is None:
            raise BadInput(f"model: {name!r} gives a {type(made).__name__} without parameters{place(name, build)}")
        return made

    module.__name__ = spec  # for error lines
    return module


def _check_size(spec: str, build: Callable[[], nn.Module]) -> None:
    """Refuse a model that does not fit the memory before any of it is allocated: on torch's meta device nothing is."""
    try:
        with torch.device("meta"):
            count = sum(parameter.numel() for parameter in build().parameters())
    except (RuntimeError, TypeError, OverflowError) as error:
        if "overflow" not in str(error).lower():
            return  # what else is wrong with it is told where it is built
        raise BadInput(f"model: {spec!r} has more parameters than can be counted") from None
    limits.fits(4 * COPIES * count, f"model: {spec!r} has {count:,} parameters")
