"""Whether training goes on as it was begun: the same numbers to the last bit need the same way of computing."""

from baton.errors import BadInput
from baton.store import Facts

WHY = {
    "way": "each way of training rounds in its own places",
    "device": "each device rounds in its own places",
    "precision": "products are rounded to other precision",
    "threads": "sums may be added up in another order",
    "processor": "another processor may add up in another order",
    "compiler": "other machine code may round in other places",
    "torch": "another torch may round in other places",
    "baton": "another Baton may compute in another order",
}  # what changes bytes; not the host, nor the Python


class OtherWay(BadInput):
    """What was begun in another way than it would go on."""


def same(before: Facts, now: Facts, anyway: bool) -> None:
    """Refuse what would go on in another way than it began, unless that is wanted."""
    other = [key for key in WHY if key in before and key in now and before[key] != now[key]]
    if other and not anyway:
        what = ", ".join(f"{key} {before[key]} then and {now[key]} now" for key in other)
        why = "; ".join(dict.fromkeys(WHY[key] for key in other))
        raise OtherWay(
            f"runs: these were begun in another way ({what}); {why}, so that the last digits may differ from a run in "
            "one piece; go on as before, or with --anyway"
        )
