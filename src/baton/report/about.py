"""How a study was run: its settings, what trained it, what is missing, what diverged, what was scaled down."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from baton.report import words
from baton.report.curves import lost
from baton.report.grid import Found, Panel
from baton.report.sheets import valued
from baton.search.rules import candidate
from baton.setting import Setting
from baton.store import Store
from baton.store.journal import entries
from baton.study import Study


def settings(found: Found) -> dict[str, dict[str, list[str]]]:
    """The fields that are the same in all runs, and those that vary, with their values."""
    written = {
        field: [words.value(x) for x in dict.fromkeys(getattr(s, field) for s in found.wanted)]
        for field in Setting.model_fields
    }
    if any(s.epochs for s in found.wanted):  # K or E, whichever a leg has
        del written["local_steps"], written["epochs"]
        written["leg"] = list(dict.fromkeys(s.length for s in found.wanted))
    return {
        "common": {field: x for field, x in written.items() if len(x) == 1},
        "varying": {field: x for field, x in written.items() if len(x) > 1},
    }


def scaled(study: Study) -> str:
    """What --scale changed, in a sentence that nobody overlooks."""
    if study.shrunk is None:
        return ""
    said = study.shrunk
    rounds = [f"{now:,} rounds instead of {before:,}" for before, now in said.rounds.items() if now != before]
    parts = [*rounds]
    if said.seeds[0] != said.seeds[1]:
        parts.append(f"{words.counted(said.seeds[1], 'seed')} instead of {said.seeds[0]}")
    if said.last[0] != said.last[1]:
        parts.append(f"the last {words.counted(said.last[1], 'evaluation')} averaged instead of {said.last[0]}")
    changed = ", ".join(parts) or "nothing had to be left out"
    paper = " These are not the paper's numbers." if parts else ""
    return f"Scaled down to {said.scale:g}: {changed}.{paper}"


def facts(study: Study, found: Found, journal: dict[str, Any] | None) -> list[dict[str, str]]:
    """What one wants to know first, each a few words."""
    done = sum(s.run_id in found.runs for s in found.wanted)
    diverged = sum(lost(run, study.report) for run in found.runs.values())
    shown = {"runs complete": f"{done:,} of {len(found.wanted):,}"}
    if found.begun and not study.tune:
        shown["in training"] = f"{len(found.begun):,}"
    seeds = len(study.values("seed"))
    shown["seed" if seeds == 1 else "seeds"] = f"{seeds}"
    shown["diverged"] = f"{diverged:,}"
    if journal:
        shown |= {"wall time": journal["time"], "trained on": ", ".join(journal["devices"])}
    return [{"name": name, "value": value} for name, value in shown.items()]


def waiting(found: Found, live: bool) -> str:
    """What is not there yet, in a sentence."""
    missing = [s.run_id for s in found.wanted if s.run_id not in found.runs]
    if not missing:
        return ""
    if not live:
        return f"{len(missing)} of {len(found.wanted)} runs are missing: the figures and the table show the others."
    begun = sum(run_id in found.begun for run_id in missing)
    if not begun and not found.runs:
        return f"None of {len(found.wanted):,} runs has begun."
    return f"{begun:,} of {len(found.wanted):,} runs are in training, {len(missing) - begun:,} have not begun."


def gaps(study: Study, panels: Sequence[Panel], found: Found) -> list[dict[str, str]]:
    """The runs that are wanted and not there, by group and line."""
    missing = {s.run_id for s in found.wanted if s.run_id not in found.runs}

    def told(setting: Setting) -> str:
        begun = found.begun.get(setting.run_id)
        far = f" at round {begun.metrics['round'][-1]:g}" if begun else ""
        return f"seed {setting.seed}{' damaged' if setting.run_id in found.damaged else far}"

    return list(_listed(study, panels, missing, told))


def losses(study: Study, panels: Sequence[Panel], found: Found) -> list[dict[str, str]]:
    """The runs that diverged, by group and line."""
    gone = {run_id for run_id, run in found.runs.items() if lost(run, study.report)}

    def told(setting: Setting) -> str:
        at = found.runs[setting.run_id].diverged
        return f"seed {setting.seed} {'without a finite end' if at is None else f'at round {at}'}"

    return list(_listed(study, panels, gone, told))


def _listed(
    study: Study, panels: Sequence[Panel], ids: set[str], told: Callable[[Setting], str]
) -> Iterator[dict[str, str]]:
    text, over, names = valued(study), study.swept, words.lines(study)
    for panel in panels if ids else ():
        figure = words.called(study, study.report.figures, panel.figure) if study.report.figures else ""
        for line, own in panel.settings.items():
            by_value: dict[str, list[str]] = {}
            for s in own:
                if s.run_id in ids:
                    value = f"{over[0]} {text(study.at(s, over[0]))}" if len(over) == 1 else candidate(s, over)
                    by_value.setdefault(value, []).append(told(s))
            if by_value:
                parts = [
                    f"{value} ({', '.join(seeds)})" if value else ", ".join(seeds) for value, seeds in by_value.items()
                ]
                group = ", ".join(filter(None, (figure, panel.group if panel.group != "all" or not figure else "")))
                yield {"group": group, "line": names[line], "text": "; ".join(parts)}


def journal(store: Store, wanted: set[str]) -> dict[str, Any] | None:
    """What trained these runs: devices, versions and time, as far as runs/journal.jsonl knows."""
    own = [entry for entry in entries(store.root) if wanted.intersection(entry["runs"])]
    if not own:
        return None
    versions: dict[str, list[str]] = {}
    for entry in own:
        for name, version in entry.get("versions", {}).items():
            if version not in versions.setdefault(name, []):
                versions[name].append(version)
    return {
        "devices": list(dict.fromkeys(entry.get("device", "unknown") for entry in own)),
        "versions": {name: ", ".join(found) for name, found in versions.items()},
        "time": words.seconds(sum(entry.get("seconds", 0.0) for entry in own)),
        "finished": max(entry.get("ended", "") for entry in own),
        "others": len({run for entry in own for run in entry["runs"]} - wanted),
    }
