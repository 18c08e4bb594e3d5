"""The table as Parquet: typed columns, null where there is nothing, where it came from in the metadata."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import baton
from baton.export import table
from baton.export.choice import Choice, need, read
from baton.setting import Setting
from baton.store import Run

GROUP = 100_000  # rows written at a time


def write(choice: Choice, out: str) -> Iterator[str]:
    """One file, written in groups of rows; another beside it for sites, where any were measured."""
    pa, pq = need("parquet", "pyarrow", "pyarrow.parquet")
    schema = _schema(pa, choice, table.columns(choice))
    with table.whole(Path(out)) as temporary, pq.ParquetWriter(temporary, schema) as file:
        waiting: list[Any] = []
        for run_id in choice.settings:
            waiting.append(_rows(pa, schema, run_id, read(choice, run_id)))
            if sum(map(len, waiting)) >= GROUP:
                file.write_table(pa.Table.from_batches(waiting, schema))
                waiting.clear()
            yield run_id
        if waiting:
            file.write_table(pa.Table.from_batches(waiting, schema))
    _sites(pa, pq, choice, Path(out))


def _sites(pa: Any, pq: Any, choice: Choice, out: Path) -> None:
    every = ((run, found) for run in choice.settings if (found := table.of_sites(choice, run)))
    first = next(every, None)
    if first is None:
        return
    kinds = (pa.string(), pa.int64(), pa.string(), pa.int64(), pa.string(), pa.float64())
    names = ("run", *table.OfSites._fields)
    schema = pa.schema([pa.field(n, kind, nullable=n == "value") for n, kind in zip(names, kinds, strict=True)])
    with table.whole(table.beside(out)) as temporary, pq.ParquetWriter(temporary, schema) as file:
        for run, found in chain([first], every):
            lines = [[run] * len(found.round), *found[:-1]]
            columns = [pa.array(x, kind) for x, kind in zip(lines, kinds, strict=False)]
            value = pa.array(found.value, pa.float64(), mask=np.isnan(found.value))
            file.write_table(pa.Table.from_arrays([*columns, value], schema=schema))


def _schema(pa: Any, choice: Choice, metrics: Sequence[str]) -> Any:
    kinds: dict[Any, Any] = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    types = {name: kinds.get(field.annotation, pa.string()) for name, field in Setting.model_fields.items()}
    types = {"run": pa.string()} | types | {"round": pa.int64()} | dict.fromkeys(metrics, pa.float64())
    types |= {"complete": pa.bool_(), "diverged": pa.int64()}
    may_lack = (*metrics, "diverged")
    fields = [pa.field(name, types[name], nullable=name in may_lack) for name in table.names(metrics)]
    return pa.schema(fields, {"baton.study": choice.name, "baton.version": baton.__version__})


def _rows(pa: Any, schema: Any, run_id: str, run: Run) -> Any:
    ends = {"run": run_id, **table.fields(run.setting), "complete": run.complete, "diverged": run.diverged}
    rounds = run.metrics["round"].astype("int64")
    columns = []
    for field in schema:
        if field.name in ends:
            columns.append(pa.repeat(pa.scalar(ends[field.name], field.type), len(rounds)))
        elif field.name == "round":
            columns.append(pa.array(rounds))
        else:
            values, empty = table.metric(run, field.name)
            columns.append(pa.array(values, mask=empty))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
