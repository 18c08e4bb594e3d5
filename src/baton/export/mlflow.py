"""Runs for MLflow: an experiment a study, and a run with parameters, metrics by round and tags for each of ours."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from baton.errors import BadInput
from baton.export.choice import Choice, Past, labels, need, pasts, read
from baton.export.table import fields, whole
from baton.store import Run
from baton.store.columns import METRICS, further

BATCH = 900  # metrics a call; MLflow takes 1000 entries, parameters included
PAGE = 1000  # runs a search
ENVIRONMENT = {  # unless set otherwise
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
}


def sqlite(out: Path) -> str:
    """The tracking URI of a folder."""
    return f"sqlite:///{out.resolve() / 'mlflow.db'}"


def write(choice: Choice, uri: str) -> Iterator[str]:
    """Runs that MLflow has whole are left alone, unfinished ones go on, the others are made.

    A run has the status RUNNING until all of it is there.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    mlflow, *_ = need("mlflow", "mlflow", *(("sqlalchemy", "alembic") if uri.startswith("sqlite:") else ()))
    names, known = labels(choice), pasts(choice)
    with _one_line(uri):
        client = _client(mlflow, uri)
        experiment = _experiment(client, choice, uri)
        there = _there(client, experiment)
        for run_id in choice.settings:
            found = there.get(run_id)
            if found is None or not _whole(found):
                run, past = read(choice, run_id), known[run_id]
                target = found or _create(client, experiment, choice, run_id, names[run_id], past)
                _log(mlflow, client, target, run, past)
            yield run_id


@contextmanager
def _one_line(uri: str) -> Iterator[None]:
    """What MLflow or its database says, without the traceback and without a password in the URI."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, ImportError) and type(error).__module__.split(".")[0] not in ("mlflow", "sqlalchemy"):
            raise
        said = str(error).strip().split("\n")[0]
        raise BadInput(re.sub(r"//[^/@\s]*@", "//", f"export: MLflow at {uri}: {said}")) from None


def _client(mlflow: Any, uri: str) -> Any:
    """A new database gets its name with all its tables: MLflow cannot go on with some of them."""
    path = _file(uri)
    if path and not path.exists():
        with whole(path) as temporary:
            mlflow.MlflowClient(f"sqlite:///{temporary}")
    return mlflow.MlflowClient(uri)


def _file(uri: str) -> Path | None:
    return Path(uri.removeprefix("sqlite:///")).resolve() if re.match(r"sqlite:///[^?]+$", uri) else None


def _experiment(client: Any, choice: Choice, uri: str) -> str:
    """Its id; made if it is not there."""
    found, path = client.get_experiment_by_name(choice.name), _file(uri)
    if found is None:
        place = path.with_name("artifacts").as_uri() if path else None
        tags = {"mlflow.note.content": choice.about} if choice.about else {}
        return str(client.create_experiment(choice.name, place, tags))
    if found.lifecycle_stage != "active":
        raise BadInput(
            f"export: MLflow's experiment {choice.name!r} was deleted; 'mlflow experiments restore' it first"
        )
    return str(found.experiment_id)


def _there(client: Any, experiment: str) -> dict[str, Any]:
    """MLflow's runs by our run id."""
    found: dict[str, Any] = {}
    token = None
    while True:
        page = client.search_runs([experiment], max_results=PAGE, page_token=token)
        found |= {run.data.tags["baton.run_id"]: run for run in page if "baton.run_id" in run.data.tags}
        token = page.token
        if not token:
            return found


def _whole(found: Any) -> bool:
    return bool(found.data.tags.get("baton.complete") == "true" and found.info.status != "RUNNING")


def _create(client: Any, experiment: str, choice: Choice, run_id: str, label: str, past: Past) -> Any:
    tags = {"baton.run_id": run_id, "baton.study": choice.name}
    return client.create_run(experiment, round(past.began * 1000), tags, label or run_id)


def _log(mlflow: Any, client: Any, target: Any, run: Run, past: Past) -> None:
    """All that is not there yet; the status last."""
    own, entities, ended = target.info.run_id, mlflow.entities, round(past.ended * 1000)
    metrics = [entities.Metric(*point, ended, step) for step, point in _points(run, _steps(client, target))]
    params = [entities.Param(field, str(value)) for field, value in fields(run.setting).items()]
    tags = {"complete": str(run.complete).lower(), **past.facts}
    if run.diverged is not None:
        tags["diverged"] = str(run.diverged)
    for first in range(0, max(len(metrics), 1), BATCH):
        last = [] if first + BATCH < len(metrics) else [entities.RunTag(f"baton.{k}", v) for k, v in tags.items()]
        client.log_batch(own, metrics[first : first + BATCH], [] if first else params, last)
    if run.complete:
        client.set_terminated(own, "FINISHED" if run.diverged is None else "FAILED", ended)


def _steps(client: Any, target: Any) -> dict[str, set[int]]:
    """The rounds that MLflow has of each metric."""
    own = target.info.run_id
    return {name: {metric.step for metric in client.get_metric_history(own, name)} for name in target.data.metrics}


def _points(run: Run, there: dict[str, set[int]]) -> Iterator[tuple[int, tuple[str, float]]]:
    """(round, (metric, value)) by round, finite values that MLflow does not have."""
    columns = {name: run.metrics[name] for name in (*METRICS, *further(run.metrics)) if name in run.metrics}
    for row, step in enumerate(run.metrics["round"].astype(int).tolist()):
        for name, values in columns.items():
            if np.isfinite(values[row]) and step not in there.get(name, ()):
                yield step, (name, float(values[row]))
