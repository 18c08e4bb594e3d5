"""A comparison as a study in memory."""

from collections.abc import Sequence
from typing import Any

from baton import metrics
from baton.advice.measure import of_setting
from baton.errors import BadInput
from baton.setting import Setting
from baton.store.columns import EXACT
from baton.study import Report, Study, measured, parse

RATES = (0.01, 0.03, 0.1, 0.3)  # searched unless others are given, and what lies beyond them where it is better
SEEDS = 5
LAST = 1  # evaluations averaged: what training ends with is what one gets


def made(
    fields: dict[str, Any],
    algorithms: Sequence[str] = ("sequential", "parallel"),
    lrs: Sequence[float] = RATES,
    seeds: int = SEEDS,
    metric: str = "",
    extend: bool = False,
) -> Study:
    """These algorithms on a setting's fields, seeds from the setting's own on; several rates are searched.

    A rate is chosen on samples that clients hold back, with the first seed; then all seeds train on everything.
    extend: rates beyond these are tried where the best is the last of them.
    """
    if len(algorithms) < 2:
        raise BadInput(f"algorithm: {len(algorithms)} to compare; two or more, -a sequential -a parallel, are right")
    if seeds < 1:
        raise BadInput(f"seeds: {seeds}; at least 1 is right")
    base = {name: x for name, x in fields.items() if name not in ("algorithm", "lr", "seed")}
    first = int(fields.get("seed", 1))
    axes = {"algorithm": list(algorithms), "lr": list(lrs), "seed": list(range(first, first + seeds))}
    found = metric or of_setting(Setting(**base)).metric
    table: dict[str, Any] = {"title": " against ".join(algorithms), "base": base, "axes": axes}
    table["report"] = {"metric": found, "log": found in EXACT, "last": LAST}
    if len(lrs) > 1:
        table["tune"] = {"method": "simple", "over": ["lr"], "last": LAST, "extend": extend}
    return parse("compare", table)


def of_runs(settings: Sequence[Setting], metric: str = "", typed: bool = False) -> Study:
    """Stored runs side by side: those that differ in their seed alone are one line.

    typed: their settings were written by who calls, so that code of their own may be asked which end is better.
    """
    fields = [f for f in Setting.model_fields if f != "seed" and len({getattr(s, f) for s in settings}) > 1]
    kinds = {tuple(getattr(s, f) for f in fields) for s in settings}
    if len(kinds) < 2:
        raise BadInput("run: all are runs of one setting with its seeds; runs of two or more settings are right")
    first = sorted(fields, key=lambda f: f != "algorithm")  # what a line is called by
    telling = [f for f in first if len({getattr(s, f) for s in settings}) == len(kinds)]
    if not telling:
        raise BadInput(f"run: they differ in {' and '.join(fields)}, none of which tells all apart; fewer are right")
    exact = any(s.model.partition(":")[0] == "quadratic" for s in settings)
    found = metric or ("distance" if exact else "test_accuracy")
    report = Report(metric=found, log=found in EXACT, last=LAST, over="", lines=telling[0])
    report = measured.with_best(report, settings if typed else _without_own_code(settings, found), given=False)
    others = [f for f in fields if f != telling[0]]
    about = f"They differ in {', '.join(others)} too." if others else ""
    return Study("compare", f"{len(kinds)} settings", about, {"all": list(settings)}, report)


def _without_own_code(settings: Sequence[Setting], metric: str) -> Sequence[Setting]:
    """Return the settings; refuse a metric of a user's own, whose code would be run to know which end is better."""
    for setting in settings:
        for name in metrics.paths(setting.metrics):
            if metrics.label(name) == measured.label(metric):
                right = "a study with this [report] metric, or a registered one"
                raise BadInput(f"metric: got {metric!r}, of code that stored runs name ({name}); expected {right}")
    return settings
