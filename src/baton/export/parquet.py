"""The table as Parquet: typed columns, null where there is nothing, where it came from in the metadata."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import baton
from baton.export import table
from baton.export.choice import Choice, need, read
from baton.setting import Setting
from baton.store import Run
from baton.store.columns import METRICS

GROUP = 100_000  # rows written at a time


def write(choice: Choice, out: str) -> Iterator[str]:
    """One file, written in groups of rows."""
    pa, pq = need("parquet", "pyarrow", "pyarrow.parquet")
    schema = _schema(pa, choice)
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


def _schema(pa: Any, choice: Choice) -> Any:
    kinds: dict[Any, Any] = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    types = {name: kinds.get(field.annotation, pa.string()) for name, field in Setting.model_fields.items()}
    types = {"run": pa.string()} | types | {"round": pa.int64()} | dict.fromkeys(METRICS, pa.float64())
    types |= {"complete": pa.bool_(), "diverged": pa.int64()}
    may_lack = (*METRICS, "diverged")
    fields = [pa.field(name, types[name], nullable=name in may_lack) for name in table.NAMES]
    return pa.schema(fields, {"baton.study": choice.name, "baton.version": baton.__version__})


def _rows(pa: Any, schema: Any, run_id: str, run: Run) -> Any:
    ends = {"run": run_id, **run.setting.model_dump(), "complete": run.complete, "diverged": run.diverged}
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
