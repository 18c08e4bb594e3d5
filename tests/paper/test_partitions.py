"""Appendix E.1: ExDir(C, alpha) is the paper's two steps, and the prior q_c can be seen."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import baton
from baton import partitions, study
from baton.cli import app
from baton.names import bind


def classes_held(spec: str, labels: np.ndarray, clients: int) -> np.ndarray:
    """Return how many classes each client holds."""
    _, split, options = bind("partition", spec, partitions.PARTITIONS)
    table = np.zeros((clients, labels.max() + 1), int)
    np.add.at(table, (split(labels, clients, **options), labels), 1)
    assert table.sum(1).min() >= 1
    return (table > 0).sum(1)


@pytest.mark.parametrize("C", [1, 2, 5, 10])
@pytest.mark.parametrize("alpha", [10, 100])
def test_exdir_gives_every_client_exactly_that_many_classes(C: int, alpha: int) -> None:
    labels = np.arange(60_000) % 10
    for seed in range(10):
        assert (classes_held(f"exdir:C={C},alpha={alpha},seed={seed}", labels, 10) == C).all()


def test_every_client_of_500_holds_its_classes_at_alpha_10() -> None:
    labels = np.arange(60_000) % 10
    for C in (1, 2):
        assert (classes_held(f"ExDir({C},10.0)", labels, 500) == C).all()


def test_the_papers_example_shows_which_classes_were_allocated(tmp_path: object) -> None:
    """Figure "Allocating 2 classes (4 classes in total) to 5 clients": the prior q_c of each class."""
    rows = "".join(f"{i / 100},{'abcd'[i % 4]}\n" for i in range(400))
    path = f"{tmp_path}/four.csv"
    with open(path, "w") as file:
        file.write("x,y\n" + rows)
    command = ["partition", "-d", f"csv:{path},label=y", "-p", "ExDir(2,10)", "-M", "5"]
    shown = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)
    prior, held = np.array(shown["prior"]), np.array(shown["labels"])
    assert prior.shape == (5, 4)
    assert (prior.sum(1) == 2).all()
    assert (prior.sum(0) >= 1).all()
    assert (held[prior == 0] == 0).all()
    text = CliRunner().invoke(app, command).output
    assert sum(line.split().count(".") for line in text.splitlines() if line[:6].strip().isdigit()) == 10


def test_the_figure_of_twelve_panels_takes_the_papers_form_and_the_tables_the_published_one() -> None:
    assert not any("balanced" in setting.partition for setting in study.read("partitions").settings)
    for name in ("best_lr", "cifar10", "cinic10", "digits", "fashion_mnist", "grid", "mnist", "split"):
        assert all("form=balanced" in setting.partition for setting in study.read(name).settings)


def test_without_a_form_it_is_the_plain_one() -> None:
    plain = baton.Setting(partition="exdir:C=2,alpha=10,form=plain")
    assert plain == baton.Setting(partition="exdir:C=2,alpha=10")
