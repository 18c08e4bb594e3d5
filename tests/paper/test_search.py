"""Appendix E.3: the learning rates that were searched, and those that the search ended with."""

import pytest

from baton import paper, study
from baton.search.rules import MISSING, cells
from baton.search.rules import search as follow

PFL, SFL = [0.01, 0.03, 0.1, 0.3], [0.003, 0.01, 0.03, 0.1]  # "in fact", in the paper's words
AUTHORS = [  # cells where the published runs used another rate than the coarse search's best
    ("cifar10", "resnet18", "C = 1", 5, "parallel", 0.3),
    ("cifar10", "resnet18", "C = 1", 50, "sequential", 0.01),
    ("cifar10", "resnet18", "C = 2", 5, "sequential", 0.03),
    ("cinic10", "vgg9", "C = 1", 5, "sequential", 0.01),
    ("cinic10", "vgg9", "C = 1", 20, "sequential", 0.003),
    ("cinic10", "vgg9", "C = 2", 5, "sequential", 0.01),
    ("cinic10", "resnet18", "C = 2", 5, "sequential", 0.03),
    ("cinic10", "resnet18", "C = 2", 20, "parallel", 0.1),
    ("cinic10", "resnet18", "C = 2", 50, "parallel", 0.3),
]


@pytest.mark.parametrize("name", ["grid", "best_lr", "mnist", "fashion_mnist", "cifar10", "cinic10", "clipping"])
def test_the_shipped_studies_search_the_rates_that_the_paper_says(name: str) -> None:
    for setting in study.read(name).settings:
        assert setting.lr in (PFL if setting.algorithm.startswith("parallel") else SFL)


@pytest.mark.parametrize("name", ["grid", "fine", "clipping", "clipping_long"])
def test_the_papers_tables_have_the_rates_that_were_trained_with(name: str) -> None:
    assert {row["lr"] for row in paper.table(name)} <= {*PFL, *SFL}


@pytest.mark.parametrize("dataset", ["cifar10", "cinic10"])
def test_the_papers_choice_is_that_of_the_published_runs(dataset: str) -> None:
    shown = study.read(dataset, method="paper")
    chosen = {}
    for cell in cells(shown):
        first = follow(shown, cell, lambda *_: MISSING).chosen[0]
        where = shown.labels["partition", first.partition]
        chosen[first.dataset, first.model, where, first.local_steps, first.algorithm.partition(":")[0]] = first.lr
    assert len(chosen) == 24
    for *cell, lr in AUTHORS:
        if cell[0] == dataset:
            assert chosen[tuple(cell)] == lr
    for cell, lr in chosen.items():  # elsewhere the fine search's or the coarse search's best
        if cell not in {tuple(other[:-1]) for other in AUTHORS}:
            fields = dict(zip(("dataset", "model", "partition", "local_steps", "algorithm"), cell, strict=True))
            rows = paper.lookup("fine", **fields, chosen=1) or paper.lookup("grid", **fields, marked=1)
            assert [row["lr"] for row in rows] == [lr]
