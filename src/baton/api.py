"""The library's front door."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from baton.advice import Measure, Verdict, words
from baton.advice.asked import ask
from baton.advice.budget import parse as parsed
from baton.comparison import SEEDS, Comparison, look, trained
from baton.crew import grid, where
from baton.crew.on_ray import held
from baton.search import choices, missing, save
from baton.search.rules import Choice
from baton.setting import Setting, checked
from baton.simulate import memory as mem
from baton.store import Store
from baton.study import Study, measured
from baton.sweep import progress
from baton.trained import Run, Runs


def run(
    settings: Sequence[Setting] | Setting,
    runs: str | Path = "runs",
    device: str = "auto",
    memory: str | None = None,
    quiet: bool = False,
    precision: str = "auto",
    anyway: bool = False,
    on: str = "",
    parts: int = 0,
    cores: int = 0,
) -> Runs:
    """Train settings as lanes, or go on with them, and return them as stored; progress goes to stderr, or the notebook.

    anyway: go on with what was begun on another machine or in another way, though the last digits may differ.
    device: also several, as cuda:0,1 or all. on: a Ray cluster, as ray or ray:HOST:PORT. parts: chunks there should be
    at least; cores: a chunk's.
    """
    wanted = [checked(s) for s in ([settings] if isinstance(settings, Setting) else settings)]
    store, place = Store(runs), where(on, parts, cores)
    size = mem.parse(memory) if memory else None
    at = grid.train(wanted, store, device, size, precision=precision, anyway=anyway, where=place)
    progress.follow(at, quiet)
    return Runs(Run(store.read(s.run_id), store, trust=True) for s in wanted)


def tune(
    study: Study,
    runs: str | Path = "runs",
    device: str = "auto",
    memory: str | None = None,
    quiet: bool = False,
    precision: str = "auto",
    on: str = "",
    parts: int = 0,
    cores: int = 0,
) -> list[Choice]:
    """Search a study's [tune] fields with one seed, train the winners on all seeds, and return what was chosen."""
    measured.check(study.report, study.settings, load=True)
    store = Store(runs)
    with held():
        while todo := missing(choices(study, store), store):
            run(todo, runs, device, memory, quiet, precision, False, on, parts, cores)
    found = choices(study, store)
    save(study, store, found)
    return found


class Advice(NamedTuple):
    """Which algorithm, at which learning rate, how sure, and the runs that decided it; printed, it is in words."""

    verdict: Verdict
    by: Measure
    probe: Runs

    def __str__(self) -> str:
        sides = [f"  {words.standing(name, own, self.by)}" for name, own in self.verdict.sides.items()]
        return "\n".join([words.advice(self.verdict), *sides, f"  {words.why(self.verdict, self.by)}"])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def advise(
    setting: Setting,
    algorithms: Sequence[str] = (),
    budget: str = "10%",
    seeds: int = 3,
    runs: str | Path = "runs",
    device: str = "auto",
    memory: str | None = None,
    quiet: bool = False,
    precision: str = "auto",
    on: str = "",
    parts: int = 0,
    cores: int = 0,
) -> Advice:
    """Which algorithm, at which learning rate and clip: a part of the rounds is tried with each, over a grid.

    algorithms: two or more; none: sequential and parallel. budget: that part, such as 10%, or a time to use up, 2min.
    """
    store = Store(runs)

    def train(todo: list[Setting]) -> None:
        run(todo, runs, device, memory, quiet, precision, False, on, parts, cores)

    with held():
        found = ask(setting, parsed(budget), seeds, algorithms, train, store)
    return Advice(found.verdict, found.by, Runs(Run(store.read(s.run_id), store, trust=True) for s in found.probe))


def compare(
    algorithms: Sequence[str] = ("sequential", "parallel"),
    lrs: Sequence[float] = (),
    seeds: int = SEEDS,
    metric: str = "",
    out: str | Path | None = None,
    runs: str | Path = "runs",
    device: str = "auto",
    memory: str | None = None,
    quiet: bool = False,
    precision: str = "auto",
    on: str = "",
    parts: int = 0,
    cores: int = 0,
    **setting: Any,
) -> Comparison:
    """Two or more algorithms on one setting, each at its best rate, over seeds: their numbers and a verdict.

    Rates are chosen on samples that clients hold back: from lrs, or from a few and what lies beyond them. out: a
    folder for the report; setting: fields of a Setting. Stored runs have `Runs.compare`.
    """
    rates, store = [setting["lr"]] if "lr" in setting else lrs, Store(runs)

    def train(todo: list[Setting]) -> None:
        run(todo, runs, device, memory, quiet, precision, False, on, parts, cores)

    with held():
        study = trained(setting, store, train, algorithms, rates, seeds, metric)
    return look(study, store, Path(out) if out else None)
