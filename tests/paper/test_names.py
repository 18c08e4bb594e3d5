"""The paper's names of algorithms, data sets, models and partitions work as it writes them."""

import pytest
from typer.testing import CliRunner

import baton
from baton import synonyms
from baton.cli import app
from baton.metrics import METRICS
from baton.setting import ROOMS

NAMES = [
    ("algorithm", "SFL", "sequential"),
    ("algorithm", "CWT", "sequential"),
    ("algorithm", "PFL", "parallel"),
    ("algorithm", "FedAvg", "parallel"),
    ("algorithm", "Local SGD", "parallel"),
    ("algorithm", "SCAFFOLD", "scaffold"),
    ("algorithm", "SSL:cut=1", "ssl:cut=1"),
    ("algorithm", "SFLv1:cut=1", "splitfed:cut=1"),
    ("algorithm", "SFLV2:cut=1", "splitfed:cut=1,version=2"),
    ("dataset", "Breast-Cancer", "breast_cancer"),
    ("model", "MLP", "mlp"),
    ("model", "LeNet-5", "lenet5"),
    ("model", "VGG-9", "vgg9"),
    ("model", "ResNet-18", "resnet18"),
    ("partition", "ExDir(1,10.0)", "exdir:C=1,alpha=10"),
    ("partition", "ExDir(C=2, alpha=1.0)", "exdir:C=2,alpha=1"),
    ("partition", "Dir(0.5)", "dirichlet:alpha=0.5"),
]
FILES = [("MNIST", "mnist"), ("FMNIST", "fashion_mnist"), ("Fashion-MNIST", "fashion_mnist"), ("CIFAR-10", "cifar10")]


@pytest.mark.parametrize(("field", "written", "registered"), NAMES)
def test_a_name_of_the_paper_is_read_and_stored_as_the_registered_one(
    field: str, written: str, registered: str
) -> None:
    setting = baton.Setting(**{field: written})
    assert getattr(setting, field) == registered
    assert setting == baton.Setting(**{field: registered})


@pytest.mark.parametrize(("written", "registered"), FILES)
def test_a_data_set_of_the_paper_is_found_by_its_name(written: str, registered: str) -> None:
    assert baton.Setting(dataset=written).dataset == registered


def test_metrics_are_read_in_any_spelling() -> None:
    assert baton.Setting(dataset="breast_cancer", metrics="AUROC,F1").metrics == "auc,f1"


@pytest.mark.parametrize("field", [*ROOMS, "metrics"])
def test_no_two_names_fold_to_one(field: str) -> None:
    known = {**ROOMS, "metrics": METRICS}[field]
    names = [*known, *synonyms.SYNONYMS.get(field, {})]
    assert len({synonyms.fold(name) for name in names}) == len(names)


def test_every_synonym_stands_for_something_registered() -> None:
    for field, others in synonyms.SYNONYMS.items():
        known = {**ROOMS, "metrics": METRICS}[field]
        assert {spec.partition(":")[0] for spec in others.values()} <= set(known)


def test_a_path_is_never_folded() -> None:
    with pytest.raises(baton.BadInput, match="Parallel"):
        baton.Setting(algorithm="Parallel:build")


def test_a_wrong_name_is_answered_with_the_nearest_of_all_that_may_be_written() -> None:
    with pytest.raises(baton.BadInput, match=r"'SFLx'.*'sequential'"):
        baton.Setting(algorithm="SFLx")


def test_the_command_line_knows_the_papers_names(tmp_path: object) -> None:
    run = ["run", "-a", "PFL", "-d", "Breast-Cancer", "-R", "2", "--runs", str(tmp_path), "--quiet"]
    assert CliRunner().invoke(app, run).exit_code == 0
    listed = CliRunner().invoke(app, ["list", "runs", "-a", "FedAvg", "--runs", str(tmp_path)]).output
    assert "parallel" in listed
    assert "SFL" in CliRunner().invoke(app, ["list", "algorithms"]).output
    assert CliRunner().invoke(app, ["bounds", "-a", "SFL"]).output.startswith("sequential")
