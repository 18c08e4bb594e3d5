"""What an algorithm of the user's own may get wrong, in one line that names its file and function."""

from torch import Tensor

from baton.algorithms import Algorithm
from baton.errors import BadInput
from baton.lanes import Params
from baton.seam import State
from baton.usercode import written_in


def as_a_state(made: object, before: State, spec: str, algorithm: Algorithm) -> State:
    """What a round returned, where it is a state like the one it was given."""
    if not isinstance(made, State):
        raise _wrong(spec, algorithm, f"a {type(made).__name__}", "a State")
    if made.model.keys() != before.model.keys() or made.server.keys() != before.server.keys():
        for drawer, new, old in zip(State._fields, made, before, strict=True):
            lost, more = old.keys() - new.keys(), new.keys() - old.keys()
            if lost or more:
                what = f"a {drawer} " + (f"without {sorted(lost)[0]!r}" if lost else f"with {sorted(more)[0]!r} too")
                raise _wrong(spec, algorithm, what, "the leaves it was given")
    for new, old in zip(made, before, strict=True):
        for name, leaf in old.items():
            _alike(new, name, leaf, spec, algorithm)
    if list(made.model) != list(before.model):  # leaves in another order: the files keep one
        made = made._replace(model={name: made.model[name] for name in before.model})
    return made


def _alike(new: Params, name: str, leaf: Tensor, spec: str, algorithm: Algorithm) -> None:
    mine = new[name]
    if not isinstance(mine, Tensor):
        raise _wrong(spec, algorithm, f"{name!r} as a {type(mine).__name__}", "a tensor")
    if mine.shape != leaf.shape:
        raise _wrong(spec, algorithm, f"{name!r} of shape {tuple(mine.shape)}", f"{tuple(leaf.shape)}")
    if mine.dtype != leaf.dtype:
        raise _wrong(spec, algorithm, f"{name!r} in {mine.dtype}", f"{leaf.dtype}")


def _wrong(spec: str, algorithm: Algorithm, what: str, right: str) -> BadInput:
    return BadInput(f"algorithm: {spec!r} ({written_in(algorithm.round)}) returned {what}; {right} is right")
