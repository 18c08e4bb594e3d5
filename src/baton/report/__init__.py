"""The report: figures, tables and a page from what the store holds."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from baton.errors import BadInput
from baton.report import figures, grid, page, tables, words
from baton.report.figures import Drawing
from baton.store import Store, write
from baton.study import Study

__all__ = ["report"]


def report(studies: Sequence[Study], store: Store, out: Path) -> Path:
    """Write a folder that shows these studies, and return its index.html.

    Next to the page lie its figures (.svg, .pdf, .png) and tables (.csv, .md). Nothing is written unless all can be.
    """
    if out.exists() and not out.is_dir():
        raise BadInput(f"out: {str(out)!r} is a file; a folder is right")
    sections: list[dict[str, Any]] = []
    written: dict[str, bytes] = {}
    for study in studies:
        stem = _stem(study.name)
        if f"{stem}.csv" in written:
            raise BadInput(f"report: study {study.name!r} is given twice; each name once is right")
        found = grid.load(study, store)
        panels = grid.panels(study, found)
        drawings = {_name(stem, study, drawing): drawing for drawing in figures.draw(study, panels)}
        table = tables.rows(study, panels)
        for name, drawing in drawings.items():
            written |= {f"{name}.{suffix}": data for suffix, data in drawing.files.items()}
        written |= {f"{stem}.csv": tables.to_csv(study, table), f"{stem}.md": tables.to_md(study, table)}
        sections.append({"stem": stem, **page.section(study, found, panels, drawings, table, store)})
    written["index.html"] = page.render(sections)
    out.mkdir(parents=True, exist_ok=True)
    for name, data in written.items():
        write(out / name, data)
    return out / "index.html"


def _name(stem: str, study: Study, drawing: Drawing) -> str:
    field = study.report["figures"]
    which = [field, words.value(drawing.figure)] if field else []
    return _stem("-".join((stem, drawing.kind, *which)))


def _stem(name: str) -> str:
    """A file name that needs no quoting, in a shell or in a link."""
    return re.sub(r"[^\w.=-]+", "-", name).strip("-.") or "study"
