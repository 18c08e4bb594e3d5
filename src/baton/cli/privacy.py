"""`baton privacy`: what the noise on a run's legs hides, before anything is trained."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli import flags
from baton.cli.common import Json, app, print_json
from baton.errors import BadInput
from baton.shown import print

if TYPE_CHECKING:
    from baton.setting import Setting

AIMS = (1.0, 3.0, 10.0)  # epsilons whose noise is told
UNUSED = ("local_steps", "epochs", "batch_size", "sampling", "lr", "clip", "weight_decay", "momentum", "lr_schedule")


@app.command()
@flags.listing_no(*UNUSED, "failures", "validation", "eval_every", "metrics", "dtype")
def privacy(
    fields: dict[str, Any],
    delta: Annotated[float, typer.Option("--delta", metavar="N", help="The delta of epsilon.")] = 1e-5,
    as_json: Json = False,
) -> None:
    """Epsilon of a run with --dp, for the client that trains most often; and the noise that given epsilons take.

    Nothing is trained. Whom it protects from whom: docs/privacy.md.
    """
    from baton import privacy as room

    setting = flags.setting(fields)
    found, count = room.spent(setting, delta), room.turns(setting)
    aims = {aim: room.noise_for(aim, count, delta) for aim in AIMS}
    if as_json:
        told = found._asdict() if found else None
        print_json({"dp": setting.dp, "turns": count, "delta": delta, "spent": told, "noise_for": aims})
        return
    who = f"S = {setting.participants} of M = {setting.clients}, {setting.rounds} rounds"
    print(f"{setting.algorithm}, {who}: the client that trains most often has {count} legs")
    if found:
        print(f"dp {setting.dp}: {told_of(found)}")
    else:
        print("dp none: legs are told as they are, and nothing is hidden")
    for aim, noise in aims.items():
        print(f"epsilon {aim:>4g} takes noise={noise:.3g}")


def told_of(found: Any) -> str:
    """A guarantee in a line."""
    return (
        f"epsilon {found.epsilon:.3g} at delta {found.delta:g} for all samples of a client against any others "
        f"({found.absent:.3g} against none)"
    )


def line(setting: "Setting") -> list[tuple[str, str]]:
    """For `baton show`: nothing where legs are told as they are."""
    from baton import privacy as room

    if setting.dp == "none":
        return []
    try:
        found = room.spent(setting)
    except BadInput as error:
        return [("privacy", str(error).removeprefix("dp: "))]
    assert found is not None
    return [("privacy", f"{told_of(found)}, after {found.turns} legs: whoever trains most often")]
