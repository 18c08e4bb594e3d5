"""What the report says of costs: bytes and modelled seconds by hand, and that old runs do without."""

import csv
import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from baton import study
from baton.api import run
from baton.ledger import Rates, seconds
from baton.report import cost, grid, report
from baton.seam import State
from baton.setting import Setting
from baton.store import History, Snapshot, Store
from baton.store.columns import BYTES
from baton.study import Study

ROUNDS = [0, 2, 4, 6]
RATES = Rates(client_flops=1e9, server_flops=1e12, up=1e6, down=1e7, latency=0.1)
WAYS = {
    "sequential": {"up": 0, "down": 0, "peer": 3e6, "messages": 2, "client_flops": 5e9, "server_flops": 0},
    "parallel": {"up": 2e6, "down": 2e6, "peer": 0, "messages": 2, "client_flops": 1e9, "server_flops": 0},
}
CURVES = {"sequential": [10.0, 60.0, 80.0, 90.0], "parallel": [10.0, 40.0, 70.0, 80.0]}


def make(**report: Any) -> Study:
    base = {"rounds": 6, "eval_every": 2}
    axes = {"algorithm": ["sequential", "parallel"], "seed": [1, 2]}
    return study.parse("small", {"base": base, "axes": axes, "report": {"over": "", "last": 1, **report}})


def put(store: Store, s: Setting, ledger: bool = True, metric: str = "test_accuracy") -> None:
    up = 1e6 * np.array(ROUNDS) * s.seed
    history = {metric: [(r, np.array([x])) for r, x in zip(ROUNDS, CURVES[s.algorithm], strict=True)]}
    sent = {"bytes_up": up, "bytes_down": 2 * up, "bytes_peer": 0 * up}
    if ledger:
        history |= {c: [(r, np.array([x])) for r, x in zip(ROUNDS, sent[c], strict=True)] for c in BYTES}
    ways = [{key: float(x) for key, x in WAYS[s.algorithm].items()}] if ledger else None
    shutil.rmtree(store.folder(s.run_id), ignore_errors=True)
    store.finish(
        [s], Snapshot(6, State({"x": torch.zeros(1, 1)}), {}, torch.tensor([-1]), History(history)), "fp32", ways
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def test_rows_by_hand(store: Store) -> None:
    shown = make()
    for s in shown.settings:
        put(store, s)
    first, second = cost.rows(shown, grid.panels(shown, grid.load(shown, store)), RATES)
    assert (first["line"], second["line"]) == ("sequential", "parallel")
    assert first["level"] == second["level"] == 80  # what both come to
    assert (first["rounds_to"], second["rounds_to"]) == (4, 6)
    each = 3 + 0.2 + 5, 2 + 0.2 + 0.2 + 1  # seconds a round
    assert (first["seconds_to"], second["seconds_to"]) == pytest.approx((4 * each[0], 6 * each[1]))
    assert (first["seconds"], second["seconds"]) == pytest.approx((6 * each[0], 6 * each[1]))
    assert (first["megabytes_to"], second["megabytes_to"]) == pytest.approx((4 * 1.5 * 3, 6 * 1.5 * 3))  # mean of seeds
    assert (first["megabytes_up"], first["megabytes_down"], first["megabytes_peer"]) == pytest.approx((9, 18, 0))


def test_where_smaller_is_better_the_level_is_the_largest_end(store: Store) -> None:
    shown = make(metric="test_loss")
    for s in shown.settings:
        put(store, s, metric="test_loss")
    first, second = cost.rows(shown, grid.panels(shown, grid.load(shown, store)), RATES)
    assert (first["level"], first["rounds_to"], second["rounds_to"]) == (90, 0, 0)


def test_files_and_page(store: Store, tmp_path: Path) -> None:
    shown = make()
    for s in shown.settings:
        put(store, s)
    page = report([shown], store, tmp_path / "page", rates=RATES)
    for suffix in ("csv", "md", "svg", "pdf", "png"):
        assert (page.parent / f"small-cost.{suffix}").stat().st_size > 200
    rows = list(csv.DictReader(io.StringIO((page.parent / "small-cost.csv").read_text())))
    assert [float(row["seconds"]) for row in rows] == pytest.approx([6 * 8.2, 6 * 3.4])
    text = page.read_text()
    assert "What it costs" in text
    assert "8 Mbit/s up, 80 Mbit/s down, 100 ms a message" in text
    again = report([shown], store, tmp_path / "again", rates=RATES)
    assert (again.parent / "small-cost.svg").read_bytes() == (page.parent / "small-cost.svg").read_bytes()


def test_groups_with_runs_of_an_older_store_are_left_out(store: Store, tmp_path: Path) -> None:
    """A line alone would be compared with itself."""
    axes = {"algorithm": ["sequential", "parallel"], "seed": [1, 2]}
    table = {"base": {"rounds": 6, "eval_every": 2}, "axes": axes, "report": {"over": "", "last": 1}}
    shown = study.parse("small", table | {"groups": {"old": {"local_steps": 1}, "new": {"local_steps": 2}}})
    for s in shown.settings:
        put(store, s, ledger=s.local_steps == 2 or s.algorithm == "sequential")
    rows = cost.rows(shown, grid.panels(shown, grid.load(shown, store)), RATES)
    assert [(row["group"], row["line"]) for row in rows] == [("new", "sequential"), ("new", "parallel")]
    assert "Left out: 1 group with runs that have no ledger." in report([shown], store, tmp_path / "some").read_text()
    for s in shown.settings:
        put(store, s, ledger=False)
    page = report([shown], store, tmp_path / "page")
    assert not list(page.parent.glob("*-cost*"))
    assert "What it costs" not in page.read_text()


def test_runs_as_they_are_trained(store: Store, tmp_path: Path) -> None:
    """Metrics of every round, evaluations now and then: bytes in between lie on the line."""
    axes = {"algorithm": ["sequential", "parallel"], "lr": [0.1]}
    base = {"dataset": "quadratic", "rounds": 8, "eval_every": 4}
    shown = study.parse("q", {"base": base, "axes": axes, "report": {"metric": "distance", "best": "min", "log": True}})
    done = run(shown.settings, store.root, quiet=True)
    rows = cost.rows(shown, grid.panels(shown, grid.load(shown, store)), RATES)
    assert [row["megabytes_peer"] for row in rows] == [8 * 2 * 8 / 1e6, 0]  # rounds, legs, one float64
    assert [row["megabytes_up"] for row in rows] == [0, 8 * 2 * 8 / 1e6]
    for row, each in zip(rows, done, strict=True):
        assert each.way is not None
        assert row["seconds"] == pytest.approx(8 * seconds(each.way, RATES))
    assert report([shown], store, tmp_path / "page").is_file()
