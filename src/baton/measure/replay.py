"""Some rounds of a run, trained again: draws are pure, so that a run is followed without being touched."""

from collections.abc import Iterator, Sequence
from typing import Any

from baton.constants import Tell
from baton.errors import BadInput
from baton.setting import Setting
from baton.simulate.engine import Program, Snapshot, advance, start


def check(setting: Setting, at: Sequence[int]) -> None:
    """Refuse rounds (0 is the first) that the run has not."""
    for round in at or [-1]:
        if not 0 <= round < setting.rounds:
            raise BadInput(f"at: {round if at else 'nothing'}; rounds from 0 to {setting.rounds - 1} are right")


def up_to(setting: Setting, at: Sequence[int], **more: Any) -> Setting:
    """The run up to the last of these rounds, measured nowhere on its way; more: other fields."""
    last = max(1, *at)
    return Setting(**{**setting.model_dump(), "rounds": last, "eval_every": last, **more})


def before(program: Program, at: Sequence[int], what: str, tell: Tell) -> Iterator[Snapshot]:
    """The run as each of these rounds begins, to where it diverges; what: is looked at there, for people."""
    last, snapshot = max(at), start(program)
    rounds = iter(advance(program, snapshot))
    for round in sorted(set(at)):
        while snapshot.round < round and int(snapshot.diverged[0]) < 0:
            snapshot = next(rounds)
            tell("training", snapshot.round, last)
        if int(snapshot.diverged[0]) >= 0:
            return
        tell(f"{what} of round {round}", round, last)
        yield snapshot
