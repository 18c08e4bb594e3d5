"""Trained runs as a person gets them: tables, pictures, the model itself."""

import html
import importlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from baton import store as stores
from baton.errors import BadInput, nearest
from baton.seam import State
from baton.setting import Setting
from baton.shown import escaped
from baton.store import Metrics, Store

if TYPE_CHECKING:
    from torch import nn

    from baton.comparison import Comparison
    from baton.lanes import Params
    from baton.report.plotted import Picture

RESULTS = ("test_accuracy", "distance", "test_loss")  # what a run came to: the first there is


class Run:
    """One trained run: its setting, what was measured, its model."""

    def __init__(self, found: stores.Run, store: Store, *, trust: bool = False) -> None:
        """trust: its setting was typed in this process: what it names of the user's own code may be imported."""
        self._found, self._store, self._trust = found, store, trust

    @property
    def setting(self) -> Setting:
        """The knobs."""
        return self._found.setting

    @property
    def id(self) -> str:
        """Its folder in the store."""
        return self.setting.run_id

    @property
    def metrics(self) -> Metrics:
        """What was measured, by name: `round`, `test_loss`, `test_accuracy`, ...; one value an evaluation."""
        return self._found.metrics

    @property
    def complete(self) -> bool:
        """Whether it was trained to its end."""
        return self._found.complete

    @property
    def diverged(self) -> int | None:
        """The round in which it did, if it did."""
        return self._found.diverged

    @property
    def way(self) -> dict[str, float] | None:
        """The mean longest way through a round, for modelled seconds."""
        return self._found.way

    @property
    def how(self) -> dict[str, str] | None:
        """How it was computed, as far as that changes bytes."""
        return self._found.how

    def last(self, metric: str = "") -> float:
        """A metric's last value; unless named, the test accuracy, or distance or test loss where there is none."""
        name = metric or main([self])
        if name not in self.metrics:
            raise BadInput(f"metric: no {name!r}; {nearest(name, self.metrics)}")
        values = self.metrics[name]
        if self.diverged is None:
            values = values[~np.isnan(values)]
        return float(values[-1]) if len(values) else float("nan")

    def frame(self) -> Any:
        """A pandas DataFrame: a row an evaluation, a column a metric."""
        kept = {name: x for name, x in self.metrics.items() if name == "round" or not np.isnan(x).all()}
        return _pandas().DataFrame(kept).astype({"round": int})

    def sites(self) -> Any:
        """A pandas DataFrame: a row an evaluation and site; n, its test rows, and a column a metric."""
        found = self._store.sites(self.id) if self.complete else None
        if found is None:
            raise BadInput("sites: none were measured in this run; metrics='accuracy' in its setting measures them")
        heads = {
            "round": np.repeat(found.rounds, len(found.names)),
            "site": found.names * len(found.rounds),
            "n": found.rows * len(found.rounds),
        }
        return _pandas().DataFrame(heads | {label: table.ravel() for label, table in found.values.items()})

    def plot(self, metric: str = "") -> "Picture":
        """A metric over rounds."""
        return Runs([self]).plot(metric)

    def module(self, client: int | None = None, *, trust: bool = False) -> "nn.Module":
        """The trained model, in evaluation mode; a fresh one at every call. client: whose, where each has its own.

        trust: import the code of your own that a stored run's setting names. Of a run that was asked for here it is
        imported without a word.
        """
        if self.setting.paths and not (self._trust or trust):
            named = ", ".join(self.setting.paths)
            raise BadInput(f"module: the run names {named}, which would be imported; trust=True if it is yours")
        import torch

        from baton import datasets, models

        s = self.setting
        data = datasets.load(s.dataset, s.clients)
        shape, numbers = tuple(data.x.shape[1:]), datasets.tells_numbers(data)
        made = models.factory(s.model, shape, data.classes, numbers)().to(getattr(torch, s.dtype))
        made.load_state_dict(self._params(client), strict=False)  # buffers are no state: they are as built
        return made.eval()

    def _params(self, client: int | None) -> "Params":
        from baton import algorithms

        s, own = self.setting, algorithms.build(self.setting.algorithm).personal
        if own is None and client is not None:
            raise BadInput(f"client: {client}; {s.algorithm} has one model for all: none is right")
        if own is None:
            return self._store.params(self.id)
        if client is None or not 0 <= client < s.clients:
            raise BadInput(
                f"client: {client}; in {s.algorithm} each has a model of its own: 0 to {s.clients - 1} is right"
            )
        lanes = State(
            *({name: leaf.unsqueeze(0) for name, leaf in part.items()} for part in self._store.state(self.id))
        )
        return {name: leaf[0, client] for name, leaf in own(lanes).items()}

    def predict(self, x: Any, outputs: bool = False, client: int | None = None, *, trust: bool = False) -> NDArray[Any]:
        """The label of each sample [n], or the model's outputs; x [n, ...] as the data set has its samples.

        trust: as `module` takes it.
        """
        import torch

        from baton import datasets, metrics

        s, made = self.setting, self.module(client, trust=trust)
        data = datasets.load(s.dataset, s.clients)
        given = torch.as_tensor(x)
        if tuple(given.shape[1:]) != tuple(data.x.shape[1:]):
            right = ["n", *map(str, data.x.shape[1:])]
            raise BadInput(
                f"x: of shape {tuple(given.shape)}; ({', '.join(right)}), n samples of {s.dataset}, is right"
            )
        with torch.no_grad():
            found = made(datasets.prepared(data, given.to(data.x.dtype), getattr(torch, s.dtype)))
        labels: NDArray[Any] = (found if outputs or not data.classes else metrics.predicted(found)).numpy()
        return labels

    def __repr__(self) -> str:
        return escaped(f"Run {self.id[:8]}: {_words(self)}")

    def _repr_html_(self) -> str:
        return Runs([self])._repr_html_()


class Runs(Sequence[Run]):
    """Trained runs, in the order they were asked for."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = list(runs)

    @overload
    def __getitem__(self, at: int) -> Run: ...
    @overload
    def __getitem__(self, at: slice) -> "Runs": ...
    def __getitem__(self, at: int | slice) -> "Run | Runs":
        """One of them, or some."""
        return Runs(self._runs[at]) if isinstance(at, slice) else self._runs[at]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def frame(self) -> Any:
        """A pandas DataFrame, tidy: a row a run and evaluation; the run, its setting, the round, every metric."""
        pandas = _pandas()
        if not self._runs:
            return pandas.DataFrame()
        parts = []
        for run in self:
            part = run.frame()
            heads = {"run": run.id, **run.setting.model_dump()}
            parts.append(pandas.concat([pandas.DataFrame([heads] * len(part)), part], axis=1))
        return pandas.concat(parts, ignore_index=True)

    def plot(self, metric: str = "") -> "Picture":
        """A metric over rounds, a line for all runs that differ in their seed only: the mean, shaded over seeds."""
        from baton.report import plotted

        if not self._runs:
            raise BadInput("plot: no runs")
        name = metric or main(self)
        known = {each for run in self for each in run.metrics} - {"round"}
        if name not in known:
            raise BadInput(f"metric: no {name!r}; {nearest(name, known)}")
        return plotted.Picture(plotted.figure([(run.setting, run.metrics) for run in self], name))

    def compare(self, metric: str = "", out: str | Path | None = None) -> "Comparison":
        """Those that differ in their seed only are one line: how far lines are apart, and which is ahead.

        metric: the data set's own unless named; out: a folder for the report.
        """
        from baton.comparison import look, of_runs

        if not self._runs:
            raise BadInput("compare: no runs")
        first, *others = [run._store for run in self]
        if any(other.root != first.root for other in others):
            raise BadInput("compare: runs of several stores; those of one are right")
        study = of_runs([run.setting for run in self], metric, typed=True)
        return look(study, first, Path(out) if out else None, typed=False)

    def __repr__(self) -> str:
        return "\n".join([f"{len(self)} run{'s' * (len(self) != 1)}", *(f"  {run!r}" for run in self)])

    def _repr_html_(self) -> str:
        name = main(self)
        rows = [(run.id[:8], *_told(run), f"{run.last(name):.4g}") for run in self]
        heads = ("run", "algorithm", "data set", "partition", "model", "lr", "seed", name.replace("_", " "))
        cells = [f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows]
        return f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{''.join(cells)}</table>"


def main(runs: Iterable[Run]) -> str:
    """The metric that says what runs came to."""
    known = {name for run in runs for name, x in run.metrics.items() if not np.isnan(x).all()}
    return next((name for name in RESULTS if name in known), RESULTS[0])


def _told(run: Run) -> tuple[str, ...]:
    s = run.setting
    return s.algorithm, s.dataset, s.partition, s.model, f"{s.lr:g}", str(s.seed)


def _words(run: Run) -> str:
    s, name = run.setting, main([run])
    where = f"{s.algorithm}, {s.model} on {s.dataset}, {s.partition}, lr = {s.lr:g}, seed {s.seed}"
    if run.diverged is not None:
        return f"{where}: diverged at round {run.diverged}"
    return f"{where}: {name.replace('_', ' ')} {run.last(name):.4g}"


def _pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError:
        raise BadInput("frame: it needs the package pandas; pip install 'baton-fl[frame]'") from None
