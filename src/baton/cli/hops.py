"""`baton run --measure hops`: what each turn of a round gains its own site, and what the next ones cost it."""

from typing import TYPE_CHECKING

from baton.nolinks import is_file, is_folder, make_folder
from baton.shown import print

if TYPE_CHECKING:
    from baton.measure.forgetting import Hops
    from baton.setting import Setting
    from baton.store import Store

SHOWN = 24  # turns of a round


def hops_of(setting: "Setting", store: "Store", device: str, quiet: bool) -> "list[Hops]":
    """Of some rounds of a run; kept in the store, so that a page need not train them again."""
    from baton.measure import hops
    from baton.measure.forgetting import from_json
    from baton.simulate.arithmetic import arithmetic, device_of
    from baton.store import files
    from baton.sweep.progress import telling

    kept = store.root / "hops" / f"{setting.run_id}.json"
    if is_folder(kept.parent) and is_file(kept):
        return from_json(files.read_json(kept))
    with arithmetic("fp32"), telling(quiet) as tell:
        found = hops.measure(setting, hops.some(setting.rounds), device_of(device), tell)
    make_folder(store.root, "hops")
    files.write_json(kept, {"hops": [each._asdict() for each in found]})
    return found


def hops_shown(setting: "Setting", store: "Store") -> "list[Hops]":
    """The same for a page: none where no model goes from site to site."""
    from baton.measure import hops

    return hops_of(setting, store, "auto", False) if hops.applies(setting) else []


def print_hops(found: "Hops") -> None:
    """A round: a line a turn, at its own site; then what it comes to."""
    how = "one after another" if found.chain else "side by side, then averaged"
    print(f"\nround {found.round}: {found.metric} at the site of each turn, {len(found.visitor)} turns {how}")
    wide = min(24, max(6, *map(len, found.names)))
    print(f"  {'turn':>4} {'site':{wide}} {'given':>9} {'made':>9} {'at end':>9} {'gain':>9} {'lost':>9}")
    visits = found.visits()
    for v in visits[:SHOWN]:
        name = found.names[v.site][:wide]
        cells = "".join(f" {x:9.4g}" for x in (v.before, v.after, v.end, v.gain, v.cost))
        print(f"  {v.hop + 1:4} {name:{wide}}{cells}")
    if len(visits) > SHOWN:
        print(f"  ... {len(visits) - SHOWN} more turns; --json has all")
    if visits:
        gain, cost = (sum(getattr(v, key) for v in visits) / len(visits) for key in ("gain", "cost"))
        later = "the turns after it cost it" if found.chain else "averaging costs it"
        print(f"  a turn gains its own site {gain:+.4g} on average; {later} {cost:+.4g}")
    if found.advantage is not None:
        print(f"  the last site ends {found.advantage:+.4g} against the mean of the others")
