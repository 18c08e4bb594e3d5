"""Models by name: functions (shape, classes, *, options) -> torch.nn.Module.

`shape` is one sample's, `classes` the number of labels. Any module works that has no state beside its parameters. To add
one: its file and one line in MODELS.
"""

from collections.abc import Callable

from torch import nn

from baton.models.logistic import logistic
from baton.models.mlp import mlp
from baton.models.quadratic import quadratic
from baton.names import bind

MODELS: dict[str, Callable[..., nn.Module]] = {
    "quadratic": quadratic,
    "logistic": logistic,
    "mlp": mlp,
}


def factory(spec: str, shape: tuple[int, ...], classes: int) -> Callable[[], nn.Module]:
    """What builds the module a spec names."""
    _, build, params = bind("model", spec, MODELS)
    return lambda: build(shape, classes, **params)
