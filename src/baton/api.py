"""The library's front door."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from baton.advice import Measure, Verdict, of_setting, verdict, words
from baton.advice import probe as probes
from baton.search import choices, missing, reader, save
from baton.search.rules import Choice
from baton.setting import Setting
from baton.simulate import memory as mem
from baton.simulate.arithmetic import device_of, precision_of
from baton.store import Store
from baton.study import Study
from baton.sweep import progress, sweep
from baton.trained import Run, Runs


def run(
    settings: Sequence[Setting] | Setting,
    runs: str | Path = "runs",
    device: str = "auto",
    memory: str | None = None,
    quiet: bool = False,
    precision: str = "auto",
    anyway: bool = False,
) -> Runs:
    """Train settings as lanes, or go on with them, and return them as stored; progress goes to stderr, or the notebook.

    anyway: go on with what was begun on another machine or in another way, though the last digits may differ.
    """
    wanted = [settings] if isinstance(settings, Setting) else list(settings)
    store, on = Store(runs), device_of(device)
    size = mem.parse(memory) if memory else None
    where = sweep(wanted, store, on, size, precision=precision_of(precision, on), anyway=anyway)
    progress.follow(where, quiet)
    return Runs(Run(store.read(s.run_id), store) for s in wanted)


def tune(
    study: Study,
    runs: str | Path = "runs",
    device: str = "auto",
    memory: str | None = None,
    quiet: bool = False,
    precision: str = "auto",
) -> list[Choice]:
    """Search a study's [tune] fields with one seed, train the winners on all seeds, and return what was chosen."""
    store = Store(runs)
    while todo := missing(choices(study, store), store):
        run(todo, runs, device, memory, quiet, precision)
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
    probe: float = 0.1,
    seeds: int = 3,
    runs: str | Path = "runs",
    device: str = "auto",
    memory: str | None = None,
    quiet: bool = False,
    precision: str = "auto",
) -> Advice:
    """Sequential or parallel, at which learning rate and clip: a part of the rounds is tried with both, over a grid."""
    by = of_setting(setting)
    wanted = probes.runs(setting, by.metric, probe, seeds)
    tried = run(wanted, runs, device, memory, quiet, precision)
    last = probes.last(wanted[0], by.metric)
    found = verdict(probes.candidates(wanted, reader(Store(runs), by.metric), by.metric, last), by)
    return Advice(found, by, tried)
