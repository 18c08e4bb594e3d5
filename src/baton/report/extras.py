"""What a study's sites, targets and hand-overs add to its page."""

from collections.abc import Callable, Sequence
from typing import Any

from baton.ledger import Rates
from baton.measure.forgetting import Hops
from baton.report import by_site, forgetting, latex, page, target, words
from baton.report.built import Built
from baton.setting import Setting
from baton.store import Store


def extras(
    built: Built, store: Store, rates: Rates, hops: Callable[[Setting], list[Hops]] | None
) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """(headings of the page, files by name)."""
    made: list[dict[str, Any]] = []
    files: dict[str, bytes] = {}

    def add(
        end: str, title: str, caption: str, heads: Sequence[str], rows: list[list[str]], drawn: dict[str, bytes]
    ) -> None:
        name = f"{built.stem}-{end}"
        own = {f"{name}.{suffix}": data for suffix, data in drawn.items()}
        own[f"{name}.csv"] = words.as_csv([heads, *rows])
        own[f"{name}.md"] = f"{words.as_md(heads, rows)}\n{caption}\n".encode()
        own[f"{name}.tex"] = latex.plain(heads, rows, caption)
        made.append(page.extra(own, name, title, caption, heads, rows))
        files.update(own)

    study, panels = built.study, built.panels
    for number, (metric, shown) in enumerate(by_site.load(study, panels, store).items()):
        add(
            f"sites-{metric}" if number else "sites",
            f"Site by site: {words.MEASURES.get(metric, metric)}",
            by_site.caption(study, shown),
            *by_site.table(study, shown),
            by_site.render(study, shown),
        )
    classes = by_site.classes(study, panels)
    if classes:
        add("classes", "Class by class", by_site.CLASSES, *classes, {})
    if study.report.target is not None:
        found = target.rows(study, panels, rates)
        add("target", "To the target", target.caption(rates), target.heads(study), found, {})
    if study.report.hops and hops is not None:
        told = forgetting.load(study, panels, hops)
        if told:
            add(
                "hops",
                "Along the chain",
                forgetting.CAPTION,
                *forgetting.table(study, told),
                forgetting.render(study, told),
            )
    return made, files
