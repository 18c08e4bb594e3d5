"""The same rounds through Baton's engine, all lanes at once."""

from collections.abc import Callable, Sequence

import torch

from baton.setting import Setting
from baton.simulate.arithmetic import arithmetic, cores
from baton.simulate.engine import Program, advance, first
from work import Work

THREADS = cores()  # as in baton.sweep: the engine's own have them all, torch's operations one


def ours(work: Work, lanes: int) -> Callable[[], None]:
    """One round of so many runs."""
    return rounds_of([work.setting(lane) for lane in range(lanes)], work.device)


def rounds_of(settings: Sequence[Setting], device: torch.device, precision: str = "fp32") -> Callable[[], None]:
    """What trains the next round of these runs."""
    program = Program(settings, device, precision, THREADS)
    rounds = advance(program, first(program))  # without start's evaluation, which takes minutes for 24 lanes of VGG-9

    def round() -> None:
        with arithmetic(precision):
            next(rounds)

    return round
