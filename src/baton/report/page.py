"""The page: one HTML file that needs nothing else, neither network nor the files next to it."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

import baton
from baton.fields import FIELDS
from baton.ledger import Rates
from baton.report import (
    about,
    compare,
    cost,
    findings,
    interactive,
    layout,
    search,
    sheets,
    tables,
    thin,
    verdicts,
    words,
)
from baton.report.built import Built
from baton.report.curves import lost
from baton.store import Store

LARGE = 300_000  # bytes of a picture in the page
KINDS = {".svg": "SVG", ".pdf": "PDF", ".png": "PNG", ".csv": "CSV", ".md": "Markdown", ".tex": "LaTeX"}


def render(sections: Sequence[dict[str, Any]], figures: dict[str, Any], live: int | None = None) -> bytes:
    """index.html of these sections; live: the version that the page starts from, and looks for newer ones."""
    from plotly.offline import get_plotlyjs

    parts = {"css": _text("page.css"), "js": _text("page.js"), "live_js": _text("live.js"), "plotly": get_plotlyjs()}
    made = _environment().get_template("page.html.j2")
    return made.render(
        sections=sections,
        figures=embedded(figures),
        live=live is not None,
        version=live,
        baton=baton.__version__,
        **{name: Markup(text) for name, text in parts.items()},
    ).encode()


def fragment(section: dict[str, Any]) -> str:
    """One section alone, for a page that is open already."""
    return _environment().get_template("section.html.j2").render(s=section)


def embedded(figures: dict[str, Any]) -> Markup:
    """Numbers inside a page, where no text in them can end the script that holds them."""
    text = json.dumps(figures, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _environment() -> Environment:
    made = Environment(
        loader=FunctionLoader(_text), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["power"] = _power
    return made


def _text(name: str) -> str:
    return files("baton.report").joinpath(name).read_text("utf-8")


def _power(text: str) -> Markup:
    """10^-1.5 with its exponent raised."""
    return Markup(re.sub(r"10\^-?([\d.]+)", lambda found: _raised(found[0]), str(escape(text))))


def _raised(power: str) -> str:
    return f"10<sup>{power[3:].replace('-', '−')}</sup>"


def section(
    built: Built,
    store: Store,
    names: Sequence[str],
    static: Mapping[str, str] | None = None,
    rates: Rates = Rates(),  # noqa: B008
) -> dict[str, Any]:
    """All the page says about one study; names of its files, and its figures as pictures unless it is live."""
    study, found, panels = built.study, built.found, built.panels
    searched = search.search_rows(study, found) if found.choices else []
    trained = about.journal(store, set(found.runs) | set(found.begun))
    return {
        "stem": built.stem,
        "title": study.title,
        "about": study.about,
        "scaled": about.scaled(study),
        "findings": findings.findings(study, panels),
        "facts": about.facts(study, found, trained),
        "lines": list(sheets.looks(study).values()),
        "figures": [_figure(built, sheet, names, static or {}) for sheet in built.sheets],
        "bounds": None,
        "extras": [],
        "field": study.report.figures,
        "table": _table(built),
        "caption": tables.caption(study),
        "verdict": _verdict(built),
        "form": layout.tables(study, panels),
        "paper": _beside(built) if built.beside else None,
        "search": _search(built, searched) if searched else None,
        "cost": _cost(built, rates, (static or {}).get(f"{built.stem}-cost", "")),
        "files": {
            key: _files(names, built.stem + end)
            for key, end in (
                ("results", ""),
                ("layout", "-layout"),
                ("verdict", "-verdict"),
                ("search", "-search"),
                ("paper", "-paper"),
                ("cost", "-cost"),
            )
        },
        "wanted": len(found.wanted),
        "complete": sum(s.run_id in found.runs for s in found.wanted),
        "missing": sum(s.run_id not in found.runs for s in found.wanted),
        "diverged": sum(lost(run, study.report) for run in found.runs.values()),
        "live": static is None,
        "waiting": about.waiting(found, live=static is None),
        "damaged": list(found.damaged.values()),
        **about.settings(found),
        "gaps": about.gaps(study, panels, found),
        "losses": about.losses(study, panels, found),
        "meaning": {"leg": "K SGD steps, or E passes over a client's samples"} | {n: f.help for n, f in FIELDS.items()},
        "journal": trained,
    }


def _verdict(built: Built) -> dict[str, Any] | None:
    found = verdicts.rows(built.study, built.panels)
    told = verdicts.caption(built.study, built.panels)
    return {"head": verdicts.HEAD, "rows": found, "caption": told} if found else None


def _cost(built: Built, rates: Rates, source: str) -> dict[str, Any] | None:
    found = cost.rows(built.study, built.panels, rates)
    if not found:
        return None
    told = {"heads": cost.heads(built.study), "rows": cost.texts(built.study, found)}
    told["caption"] = cost.caption(built.study, built.panels, rates)
    return {"name": f"{built.stem}-cost", "source": source, **told}


def figures(built: Sequence[Built]) -> dict[str, Any]:
    """The numbers of every figure, by name."""
    most = thin.room([each.sheets for each in built])
    return {
        sheets.name(each.study, sheet): interactive.figure(each.study, sheet, most)
        for each in built
        for sheet in each.sheets
    }


def _figure(built: Built, sheet: sheets.Sheet, names: Sequence[str], static: Mapping[str, str]) -> dict[str, Any]:
    name = sheets.name(built.study, sheet)
    title, note = sheets.caption(built.study, sheet)
    if sheet.kind == "curves" and any(not c.done for p in sheet.panels for c in p.curves.values() if c.drawn):
        note += " Dotted: unfinished."
    return {"name": name, "title": title, "note": note, "source": static.get(name, ""), "files": _files(names, name)}


def still(drawn: Mapping[str, bytes], name: str, title: str, note: str) -> dict[str, Any]:
    """A figure that is a picture only."""
    source = picture({PurePath(file).suffix[1:]: data for file, data in drawn.items()})
    return {"name": name, "title": title, "note": note, "source": source, "files": _files(list(drawn), name)}


def picture(drawn: Mapping[str, bytes]) -> str:
    """A figure inside the page: as SVG, or as PNG where that would be very large."""
    kind, data = ("svg+xml", drawn["svg"]) if len(drawn["svg"]) <= LARGE else ("png", drawn["png"])
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def extra(
    drawn: Mapping[str, bytes], name: str, title: str, caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """A heading of its own: a picture, where one is drawn, and a table."""
    own = {PurePath(file).suffix[1:]: data for file, data in drawn.items() if PurePath(file).stem == name}
    told = {"name": name, "title": title, "caption": caption, "heads": heads, "rows": rows}
    return told | {"source": picture(own) if "svg" in own else "", "files": _files(list(drawn), name)}


def _files(names: Sequence[str], stem: str) -> list[dict[str, str]]:
    own = {PurePath(name).suffix: name for name in names if name in {stem + suffix for suffix in KINDS}}
    return [{"kind": kind, "name": own[suffix]} for suffix, kind in KINDS.items() if suffix in own]


def _table(built: Built) -> list[tables.Row]:
    """The table of results; where nothing is complete, how far training has come."""
    made, field = tables.rows(built.study, built.panels), built.study.report.figures
    names = words.names(built.study, field) if field else {}
    for row, panel in zip(made, built.panels, strict=True):
        row["figure"] = names.get(panel.figure, row["figure"])
        for cell in row["cells"]:
            curve = panel.curves.get(cell["line"])
            if curve and curve.best is None and curve.drawn:
                last = min(float(run.metrics["round"][-1]) for run in curve.drawn)
                cell["text"], cell["note"] = "in training", f"round {last:g} of {built.study.settings[0].rounds:,}"
    return made


def _beside(built: Built) -> dict[str, Any]:
    rows = built.beside or []
    told = {"summary": compare.summary(rows), "caption": compare.caption(built.study, rows)}
    return {"rows": rows, "values": any(row["value"] for row in rows), **told}


def _search(built: Built, rows: Sequence[search.Row]) -> dict[str, Any]:
    caption = search.search_caption(built.study, rows)
    told = search.totals(rows)
    return {"rows": rows, "totals": told, "caption": caption.replace(told, "").strip()}
