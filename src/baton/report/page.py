"""The page: one HTML file that needs nothing else, neither network nor the files next to it."""

import base64
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

import baton
from baton.report import tables, words
from baton.report.axes import FLOOR, looks
from baton.report.curves import lost, values
from baton.report.figures import Drawing
from baton.report.grid import Found, Panel
from baton.setting import Setting
from baton.store import Store
from baton.study import Study


def render(sections: Sequence[dict[str, Any]]) -> bytes:
    """index.html of these sections."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("baton.report").joinpath("page.html.j2").read_text("utf-8"))
    return template.render(sections=sections, version=baton.__version__).encode()


def section(
    study: Study,
    found: Found,
    panels: Sequence[Panel],
    drawings: Mapping[str, Drawing],
    table: Sequence[tables.Row],
    store: Store,
) -> dict[str, Any]:
    """Everything the page says about one study; drawings are by the name of their files."""
    settings, runs = found.wanted, found.runs
    written = {field: [words.value(x) for x in values(settings, field)] for field in Setting.model_fields}
    return {
        "title": study.title,
        "about": study.about,
        "findings": tables.findings(study, panels),
        "lines": list(looks(study).values()),
        "figures": [_figure(study, name, drawing) for name, drawing in drawings.items()],
        "field": study.report["figures"],
        "table": table,
        "caption": tables.caption(study),
        "wanted": len(settings),
        "complete": len(runs),
        "missing": sum(s.run_id not in runs for s in settings),
        "diverged": sum(lost(run, study.report) for run in runs.values()),
        "common": {field: x for field, x in written.items() if len(x) == 1},
        "varying": {field: x for field, x in written.items() if len(x) > 1},
        "meaning": {field: info.description or "" for field, info in Setting.model_fields.items()},
        "journal": journal(store, set(runs)),
    }


def _figure(study: Study, name: str, drawing: Drawing) -> dict[str, str]:
    report = study.report
    metric = words.METRICS.get(report["metric"], report["metric"])
    where = f", {report['figures']} = {words.value(drawing.figure)}" if report["figures"] else ""
    if drawing.kind == "curves":
        spread = "one standard deviation" if report["shade"] == "std" else "smallest to largest"
        chosen = f" Each line at its best {report['over']}, written above the panel." if report["over"] else ""
        title, note = f"{metric} over rounds{where}", f"Mean over seeds; shaded: {spread}.{chosen}"
    else:
        title = f"{metric} at the end against {drawing.kind}{where}"
        note = f"Mean and standard deviation over seeds and the last {report['last']} evaluations; ringed: the best."
    if report["log"]:
        note += f" What is below {FLOOR:g} is drawn there."
    source = "data:image/svg+xml;base64," + base64.b64encode(drawing.files["svg"]).decode()
    return {"name": name, "title": title[0].upper() + title[1:], "note": note, "source": source}


def journal(store: Store, wanted: set[str]) -> dict[str, Any] | None:
    """What trained these runs: devices, versions and time, as far as runs/journal.jsonl knows."""
    path = store.root / "journal.jsonl"
    entries = [_entry(line) for line in path.read_text().splitlines()] if path.is_file() else []
    own = [entry for entry in entries if wanted.intersection(entry.get("runs", ()))]
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


def _entry(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError:  # a line that was being written when the power went
        return {}
    return entry if isinstance(entry, dict) else {}
