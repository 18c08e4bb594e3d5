"""`baton partition`: tables, measures, pictures, maps; and the study of the paper's twelve panels."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from baton import study
from baton.cli import app
from baton.clients import owners
from baton.errors import BadInput
from baton.partitions import measures
from baton.report.bubbles import Panel, grid, pair

SMALL = ["partition", "-d", "digits", "-p", "exdir:C=2,alpha=10", "-M", "8"]
MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_table_and_measures() -> None:
    out = run(*SMALL)
    assert "digits, exdir:C=2,alpha=10, 8 clients: 1,437 samples" in out
    rows = [line.split() for line in out.splitlines() if line[:6].strip().isdigit()]
    assert len(rows) == 8
    for row in rows:
        numbers = [0 if cell == "." else int(cell.replace(",", "")) for cell in row[1:]]
        assert sum(numbers[:-1]) == numbers[-1]
    assert "mean distance to all samples' labels: total variation 0.8" in out


def test_many_clients_are_summed_up() -> None:
    out = run("partition", "-p", "iid:min_samples=0", "-M", "2000")
    assert "median" in out
    assert "... and 1,990 more clients" in out
    assert "clients without samples: 563" in out
    assert len(out.splitlines()) < 30


def test_json_is_the_table() -> None:
    found = json.loads(run(*SMALL, "--json"))
    assert found["partition"] == "exdir:C=2,alpha=10"
    counts = np.array(found["labels"])
    assert counts.shape == (8, 10)
    assert found["measures"] == json.loads(json.dumps(measures.measure(counts).summary()))


def test_a_map_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    run(*SMALL, "--write", str(path))
    spec = f"file:{path}"
    assert np.array_equal(owners("digits", spec, 8), owners("digits", "exdir:C=2,alpha=10", 8))
    assert json.loads(run("partition", "-p", spec, "-M", "8", "--json"))["measures"]["samples"] == 1437


@pytest.mark.parametrize("suffix", MAGIC)
@pytest.mark.parametrize("clients", [8, 600])
def test_pictures(suffix: str, clients: int, tmp_path: Path) -> None:
    path = tmp_path / f"out.{suffix}"
    run("partition", "-p", "iid", "-M", str(clients), "--plot", str(path))
    assert path.read_bytes().startswith(MAGIC[suffix])


def test_pictures_show_the_numbers_and_are_the_same_every_time() -> None:
    counts = np.array([[12, 0, 345], [0, 6789, 1]])
    drawn = pair(Panel("two $clients", counts), "svg")
    assert drawn == pair(Panel("two $clients", counts), "svg")
    for number in (b"12", b"345", b"6789"):
        assert drawn.count(b"<!-- " + number + b" -->") == 2  # in the bubbles and on the heat map
    several = grid([Panel(f"panel {i}", counts) for i in range(5)], 3, "svg")
    assert several.count(b"<!-- 6789 -->") == 5
    assert b"<!-- panel 4 -->" in several
    assert pair(Panel("nobody holds anything", np.zeros((3, 2), dtype=np.int64)), "png").startswith(b"\x89PNG")


TOML = """
[base]
clients = 6
[axes]
lr = [0.1, 0.2]
[groups]
"two classes".partition = "exdir:C=2,alpha=10"
"all alike".partition = "iid"
"""


def test_a_study_draws_its_groups(tmp_path: Path) -> None:
    path, plot = tmp_path / "own.toml", tmp_path / "grid.svg"
    path.write_text(TOML)
    out = run("partition", "--study", str(path), "--plot", str(plot))
    assert [line.split("  ")[0] for line in out.splitlines()[1:]] == ["two classes", "all alike"]
    assert b"<!-- two classes -->" in plot.read_bytes()
    found = json.loads(run("partition", "--study", str(path), "--json"))
    assert [one["title"] for one in found] == ["two classes", "all alike"]


def test_the_papers_twelve_panels() -> None:
    found = study.read("partitions")
    specs = [[*{s.partition: None for s in group}] for group in found.groups.values()]
    assert specs == [[f"exdir:C={C},alpha={alpha}"] for C in (1, 2, 5, 10) for alpha in (100, 10, 1)]
    assert {(s.dataset, s.clients) for s in found.settings} == {("mnist", 10)}
    assert found.report.columns == 3


BAD = [
    (["--study", "partitions", "-M", "3"], "--study goes without clients"),
    (["--study", "partitions", "--write", "x.json"], "--study goes without write"),
    (["--plot", "x.gif"], "a name ending in .png, .svg or .pdf is right"),
    (["--plot", "no/such/x.png"], "plot: no folder"),
    (["--write", "no/such/x.json"], "write: no folder"),
    (["-d", "quadratic"], "dataset: quadratic has no labels"),
    (["-p", "exdr:C=1,alpha=1"], "did you mean 'exdir'?"),
    (["-M", "0"], "clients: 0"),
]


@pytest.mark.parametrize(("arguments", "line"), BAD)
def test_mistakes_are_one_line(arguments: list[str], line: str) -> None:
    with pytest.raises(BadInput) as error:
        CliRunner().invoke(app, ["partition", *arguments], catch_exceptions=False)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "out.png").mkdir()
    command = [sys.executable, "-m", "baton", *SMALL, "--plot", str(tmp_path / "out.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
