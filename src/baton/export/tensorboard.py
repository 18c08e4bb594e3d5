"""Event files for TensorBoard: a folder a run, scalars by round, and the setting for its HPARAMS tab."""

import io
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from baton.export.choice import Choice, Past, labels, need, pasts, read
from baton.export.table import fields, whole
from baton.store import Run
from baton.store.columns import METRICS, further

FILE = "events.out.tfevents.baton"  # one a folder: written again, it is replaced
LONGEST = 200  # characters of a folder's name
EXACT = 1 << 53  # HPARAMS holds numbers as doubles, which count up to here


def write(choice: Choice, out: str) -> Iterator[str]:
    """A folder of folders; the same runs give the same bytes."""
    tb = _Modules()
    root, names, known = Path(out), labels(choice), pasts(choice)
    before: dict[str, list[Path]] = {}
    for path in root.glob(f"*/{FILE}"):
        before.setdefault(path.parent.name.partition("-")[0], []).append(path)
    for run_id in choice.settings:
        file = root / folder(run_id, names[run_id]) / FILE
        with whole(file) as temporary:
            temporary.write_bytes(_records(tb, _events(tb, read(choice, run_id), known[run_id])))
        for path in before.get(run_id, []):
            if path != file:  # named by other fields, when it was exported among other runs
                _remove(path)
        yield run_id


def folder(run_id: str, label: str) -> str:
    """A run's name in TensorBoard: its id and what sets it apart."""
    return "-".join(filter(None, (run_id, re.sub(r"[^\w.,=-]+", "_", label))))[:LONGEST]


def tag(metric: str) -> str:
    """`train_random_loss` -> `train_random/loss`: what stands before the slash gets a section of its own."""
    where, _, what = metric.rpartition("_")
    return f"{where}/{what}" if what in ("loss", "accuracy") else metric


def _remove(path: Path) -> None:
    path.unlink()
    with suppress(OSError):  # something else lies there
        path.parent.rmdir()


class _Modules:
    """TensorBoard's own messages, and the format of their file."""

    def __init__(self) -> None:
        self.event, self.summary, self.api, self.hparams, self.plugin, self.records = need(
            "tensorboard",
            "tensorboard.compat.proto.event_pb2",
            "tensorboard.compat.proto.summary_pb2",
            "tensorboard.plugins.hparams.api_pb2",
            "tensorboard.plugins.hparams.metadata",
            "tensorboard.plugins.hparams.plugin_data_pb2",
            "tensorboard.summary.writer.record_writer",
        )


def _events(tb: _Modules, run: Run, past: Past) -> Iterator[Any]:
    """Numbers that are not finite are left out. No round's own time is known: all have the time the run ended."""
    yield tb.event.Event(wall_time=past.began, file_version="brain.Event:2")
    start = tb.plugin.SessionStartInfo(start_time_secs=past.began)
    for field, value in fields(run.setting).items():
        _fill(start.hparams[field], value)
    yield _session(tb, past.began, tb.hparams.SESSION_START_INFO_TAG, session_start_info=start)
    every = (*METRICS, *further(run.metrics))
    columns = [(tag(name), run.metrics[name]) for name in every if name in run.metrics]
    for row, round in enumerate(run.metrics["round"].astype(int).tolist()):
        found = [(name, values[row]) for name, values in columns if np.isfinite(values[row])]
        values = [tb.summary.Summary.Value(tag=name, simple_value=value) for name, value in found]
        if values:
            yield tb.event.Event(wall_time=past.ended, step=round, summary=tb.summary.Summary(value=values))
    if run.complete:
        status = tb.api.STATUS_SUCCESS if run.diverged is None else tb.api.STATUS_FAILURE
        end = tb.plugin.SessionEndInfo(status=status, end_time_secs=past.ended)
        yield _session(tb, past.ended, tb.hparams.SESSION_END_INFO_TAG, session_end_info=end)


def _fill(message: Any, value: Any) -> None:
    """A setting's value as a protobuf Value, which knows text, doubles and truth."""
    if isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, int | float) and abs(value) <= EXACT:
        message.number_value = value
    else:
        message.string_value = str(value)


def _session(tb: _Modules, time: float, name: str, **data: Any) -> Any:
    about = tb.hparams.create_summary_metadata(tb.plugin.HParamsPluginData(**data))
    inside = tb.plugin.HParamsPluginData.FromString(about.plugin_data.content)
    about.plugin_data.content = inside.SerializeToString(
        deterministic=True
    )  # it comes in an order of the process's own
    value = tb.summary.Summary.Value(tag=name, metadata=about, tensor=tb.hparams.NULL_TENSOR)
    return tb.event.Event(wall_time=time, summary=tb.summary.Summary(value=[value]))


def _records(tb: _Modules, events: Iterator[Any]) -> bytes:
    file = io.BytesIO()
    records = tb.records.RecordWriter(file)
    for event in events:
        records.write(event.SerializeToString(deterministic=True))  # maps in one order: the same bytes every time
    return file.getvalue()
