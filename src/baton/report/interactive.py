"""Figures as plain numbers, for the page to draw: curves to zoom into, seeds and other values to switch on."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from baton.report.bands import drawn, logs, visible
from baton.report.curves import Curve
from baton.report.grid import Panel
from baton.report.sheets import LONG, Sheet, chosen, heading, looks, metric_name, places, swept, valued
from baton.report.thin import Room, Shared, short, step
from baton.study import Study

DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}
MARKS = {"o": "circle", "s": "square", "D": "diamond", "^": "triangle-up", "v": "triangle-down", "P": "cross"}
ACROSS = 4  # panels in a row at most, on a wide screen
NEAR = 0.14  # of the axis: labels of ticks closer than this would touch
EDGE = 0.06  # of the axis: room around the curves


def figure(study: Study, sheet: Sheet, most: Room) -> dict[str, Any]:
    """All that the page needs to draw a figure."""
    xs = Shared()
    across = min(study.report.columns, len(sheet.panels))
    lines = list(looks(study))
    rows = []
    for metric in sheet.metrics:
        if sheet.kind == "curves":
            panels = [_curves(study, panel, metric, lines, xs, most) for panel in sheet.panels]
        else:
            panels = [_points(study, panel, metric, lines, *places(sheet)) for panel in sheet.panels]
        for start in range(0, len(panels), max(1, across)):  # the panels of a row share their axis
            _share(panels[start : start + across], logs(study.report, metric))
        label = metric_name(metric)
        rows.append({"label": label[0].upper() + label[1:], "log": logs(study.report, metric), "panels": panels})
    text = valued(study)
    every = study.values("") if not swept(study) else _swept(sheet)
    return {
        "kind": "curves" if sheet.kind == "curves" else "points",
        "lines": [
            {"label": k.label, "colour": k.colour, "dash": DASHES[k.dash], "mark": MARKS[k.marker]}
            for k in looks(study).values()
        ],
        "over": LONG.get(swept(study), swept(study)),
        "values": [text(x) for x in every],
        "columns": -(-across // -(-across // ACROSS)) if across else 1,
        "every": xs.every,
        "rows": rows,
        "xs": xs.arrays,
    }


def _swept(sheet: Sheet) -> list[Any]:
    found = [curve for panel in sheet.panels for curve in panel.curves.values()]
    every = list(dict.fromkeys(x for curve in found for x in (*curve.runs, *curve.begun)))
    return sorted(every) if all(isinstance(x, int | float) for x in every) else every


def _curves(study: Study, panel: Panel, metric: str, lines: list[Any], xs: Shared, most: Room) -> dict[str, Any]:
    """The panel's mean curves, then what can be switched on: seeds, and the other values of the swept field."""
    made: list[dict[str, Any]] = []
    text, report = valued(study), study.report
    for line, curve in panel.curves.items():
        own = {"line": lines.index(line), "done": curve.done}
        xs.every = max(xs.every, step(len(curve.rounds), most.means))
        x, band = xs.thin(drawn(curve.drawn, metric, report), most.means)
        ends = {"low": short(band.low), "high": short(band.high)} if len(curve.drawn) > 1 else {}
        made.append({**own, "kind": "mean", "x": x, "y": short(band.mean), **ends, **_how_far(curve)})
        for run in curve.drawn if len(curve.drawn) > 1 else ():
            x, band = xs.thin(drawn([run], metric, report), most.more)
            made.append({**own, "kind": "seed", "name": f"seed {run.setting.seed}", "x": x, "y": short(band.mean)})
        for value in [v for v in (*curve.runs, *(v for v in curve.begun if v not in curve.runs)) if v != curve.lead]:
            runs = curve.runs.get(value) or curve.begun[value]
            x, band = xs.thin(drawn(runs, metric, report), most.more)
            done = value in curve.runs
            made.append({**own, "done": done, "kind": "other", "value": text(value), "x": x, "y": short(band.mean)})
    rounds = max(s.rounds for own in panel.settings.values() for s in own)
    return {**_head(study, panel, lines), "curves": [c for c in made if c["y"]], "rounds": rounds}


def _how_far(curve: Curve) -> dict[str, str]:
    if curve.done or not curve.drawn:
        return {}
    last = min(float(run.metrics["round"][-1]) for run in curve.drawn)
    return {"far": f"round {last:g} so far"}


def _points(
    study: Study, panel: Panel, metric: str, lines: list[Any], place: dict[Any, float], log: bool
) -> dict[str, Any]:
    """The end of training at each value of the swept field."""
    text, report = valued(study), study.report
    made = []
    for line, curve in panel.curves.items():
        sound = sorted((p for p in curve.points if not p.lost), key=lambda p: place[p.value])
        mean, low, high = (
            visible(np.array([getattr(p, e) for p in sound]), metric, report) for e in ("mean", "low", "high")
        )
        best = curve.best
        made.append(
            {
                "line": lines.index(line),
                "kind": "points",
                "x": [place[p.value] for p in sound],
                "y": short(mean),
                "low": short(low),
                "high": short(high),
                "names": [text(p.value) for p in sound],
                "best": next((i for i, p in enumerate(sound) if best and p.value == best.value), None),
                "gone": [
                    [place[p.value], f"{text(p.value)}: {p.lost} of {p.seeds} diverged"] for p in curve.points if p.lost
                ],
                "paper": [[place[x], y, text(x)] for x, y in panel.published.get(line, {}).items() if x in place],
            }
        )
    ticks = {"at": list(place.values()), "text": _labels({at: text(x) for x, at in place.items()}, log), "log": log}
    return {**_head(study, panel, lines), "curves": made, "ticks": ticks, "worse": report.best == "max"}


def _labels(texts: dict[float, str], log: bool) -> list[str]:
    """What stands below each tick: powers of ten first, the others where they are not too close to these."""
    if not log or len(texts) < 2:
        return list(texts.values())
    places = {x: float(np.log10(x)) for x in texts}
    room = (max(places.values()) - min(places.values())) * NEAR
    kept: list[float] = []
    for x in sorted(texts, key=lambda x: not places[x].is_integer()):
        if all(abs(places[x] - places[other]) >= room for other in kept):
            kept.append(x)
    return [text if x in kept else "" for x, text in texts.items()]


def _head(study: Study, panel: Panel, lines: list[Any]) -> dict[str, Any]:
    field = swept(study)
    told = [{"line": lines.index(line), "text": text} for line, text in chosen(panel, study).items()] if field else []
    return {"title": heading(panel, study), "over": "" if "," in field else field, "chosen": told}


def _share(panels: Sequence[dict[str, Any]], log: bool) -> None:
    """One vertical axis for the panels of a row, wide enough for what is drawn at first; in decades on a log axis."""
    shown = [c for panel in panels for c in panel["curves"] if c["kind"] in ("mean", "points")]
    ours = [y for c in shown for key in ("y", "low", "high") for y in c.get(key, ())]
    every = np.array([*ours, *(y for c in shown for _, y, _ in c.get("paper", ()))])
    if not len(every):
        return
    ends = np.log10([every.min(), every.max()]) if log else np.array([every.min(), every.max()])
    room = EDGE * float(ends[1] - ends[0]) or 0.5
    found = [float(f"{ends[0] - room:.6g}"), float(f"{ends[1] + room:.6g}")]
    for panel in panels:
        panel["range"] = found
