"""Metrics against scikit-learn, over lanes, with ties and weights; where rows cannot tell, nan."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from baton import metrics
from baton.datasets import Dataset
from baton.datasets.base import cross_entropy
from baton.errors import BadInput
from baton.metrics import METRICS
from baton.setting import Setting


def data(classes: int) -> Dataset:
    y = torch.zeros(1, dtype=torch.int64 if classes else torch.float32)
    return Dataset(torch.zeros(1, 1), y, torch.zeros(1, 1), y, classes, cross_entropy)


def built(spec: str, classes: int) -> metrics.Metric:
    return next(iter(metrics.build([spec], data(classes)).values()))


def share(a: float) -> float:
    return 100 * a


def probabilities(outputs: torch.Tensor) -> np.ndarray:
    return outputs.double().softmax(-1).numpy()


def theirs(name: str, outputs: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor) -> float:
    """scikit-learn's; outputs [n, C]."""
    p, y, w, said = probabilities(outputs), labels.numpy(), weight.numpy(), outputs.argmax(-1).numpy()
    two = outputs.shape[-1] == 2
    if name == "accuracy":
        return share(sk.accuracy_score(y, said, sample_weight=w))
    if name == "loss":
        return float(sk.log_loss(y, p, sample_weight=w, labels=range(p.shape[1])))
    if name == "auc":
        p = p.round(12)  # equal odds are ties, whatever the softmax rounded
        return float(sk.roc_auc_score(y, p[:, 1] if two else p, multi_class="ovr", sample_weight=w))
    if name == "sensitivity":
        average = {"pos_label": 1} if two else {"average": "macro"}
        return share(sk.recall_score(y, said, sample_weight=w, zero_division=np.nan, **average))
    if name == "specificity":
        every = [0] if two else range(p.shape[1])
        parts = [sk.recall_score(y != c, said != c, sample_weight=w) for c in every]
        return share(sk.recall_score(y, said, pos_label=0, sample_weight=w)) if two else share(float(np.mean(parts)))
    if name == "f1":
        return float(sk.f1_score(y, said, average="macro", sample_weight=w))
    if name == "balanced_accuracy":
        return share(sk.balanced_accuracy_score(y, said, sample_weight=w))
    if name == "brier":
        away = (p - np.eye(p.shape[1])[y]) ** 2
        if two:
            return float(sk.brier_score_loss(y, p[:, 1], sample_weight=w))
        return float(np.average(away.sum(1), weights=w))
    if name == "top5":
        return share(sk.top_k_accuracy_score(y, outputs.numpy(), k=5, sample_weight=w, labels=range(p.shape[1])))
    raise AssertionError(name)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([2, 3, 7]), st.integers(2, 40), st.booleans(), st.booleans())
def test_metrics_of_classes_are_scikit_learns(seed: int, classes: int, extra: int, ties: bool, weighted: bool) -> None:
    draw = torch.Generator().manual_seed(seed)
    labels = torch.cat([torch.arange(classes), torch.randint(0, classes, (extra,), generator=draw)])  # each is there
    outputs = torch.randn(3, len(labels), classes, generator=draw, dtype=torch.float64)
    outputs = (2 * outputs).round() / 2 if ties else outputs
    outputs[..., 0] += 1e-3  # ties of the likeliest class are anybody's; scores of rows still tie
    weight = torch.rand(len(labels), generator=draw, dtype=torch.float64) + 0.1 if weighted else torch.ones(len(labels))
    for name in METRICS:
        if name in metrics.NUMBERS or name == "calibration" or (name == "top5" and classes <= 5):
            continue
        if ties and name not in ("auc", "loss", "brier", "top5"):
            continue
        ours = built(name, classes).of(outputs, labels, weight if weighted else None)
        expected = [theirs(name, lane, labels, weight) for lane in outputs]
        np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-9, atol=1e-9, err_msg=name)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 30), st.booleans())
def test_metrics_of_numbers_are_scikit_learns(seed: int, count: int, deep: bool) -> None:
    draw = torch.Generator().manual_seed(seed)
    labels, outputs = torch.randn(count, generator=draw) + 50, torch.randn(2, count, generator=draw) + 50
    for name, theirs in (("mse", sk.mean_squared_error), ("mae", sk.mean_absolute_error), ("r2", sk.r2_score)):
        ours = built(name, 0).of(outputs.unsqueeze(-1) if deep else outputs, labels, None)
        np.testing.assert_allclose(
            ours.numpy(), [theirs(labels.double(), lane.double()) for lane in outputs], rtol=1e-6
        )


@given(st.integers(0, 10**6), st.sampled_from([1, 4, 15]))
def test_calibration_is_what_a_plain_loop_adds_up(seed: int, bins: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    outputs, labels = torch.randn(1, 30, 3, generator=draw), torch.randint(0, 3, (30,), generator=draw)
    p = probabilities(outputs[0])
    sure, right, found = p.max(1), p.argmax(1) == labels.numpy(), 0.0
    for b in range(bins):
        inside = (sure > b / bins) & (sure <= (b + 1) / bins)
        found += abs(sure[inside].sum() - right[inside].sum()) / len(sure)
    assert float(built(f"calibration:bins={bins}", 3).of(outputs, labels, None)) == pytest.approx(found, abs=1e-12)


def test_one_logit_says_the_same_as_two() -> None:
    draw = torch.Generator().manual_seed(3)
    one, labels = torch.randn(2, 50, 1, generator=draw), torch.randint(0, 2, (50,), generator=draw)
    two = torch.cat([torch.zeros_like(one), one], -1)
    for name in ("accuracy", "loss", "auc", "sensitivity", "specificity", "f1", "brier", "calibration"):
        metric = built(name, 2)
        np.testing.assert_allclose(metric.of(one, labels, None), metric.of(two, labels, None), rtol=1e-6, err_msg=name)
    x, y = one[0].requires_grad_(), labels
    np.testing.assert_allclose(*(torch.autograd.grad(cross_entropy(out, y).sum(), x)[0] for out in (
        x, torch.cat([torch.zeros_like(x), x], -1)
    )), rtol=1e-5, atol=1e-6)  # fmt: skip


def test_rows_that_cannot_tell_give_nan() -> None:
    outputs, ones = torch.randn(2, 5, 2), torch.ones(5, dtype=torch.int64)
    assert built("auc", 2).of(outputs, ones, None).isnan().all()
    assert built("specificity", 2).of(outputs, ones, None).isnan().all()
    assert not built("sensitivity", 2).of(outputs, ones, None).isnan().any()
    assert built("r2", 0).of(outputs[..., :1], torch.full((5,), 3.0), None).isnan().all()


@given(st.integers(0, 10**6), st.sampled_from([2, 3, 5]))
def test_auc_by_classes_held_is_auc_of_their_rows(seed: int, classes: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (25,), generator=draw)
    outputs = (2 * torch.randn(2, 25, classes, generator=draw)).round()
    held, metric = torch.rand(2, 4, classes, generator=draw) < 0.6, built("auc", classes)
    assert metric.held is not None
    found = metric.held(outputs, labels, held)
    for lane in range(2):
        for site in range(4):
            rows = held[lane, site][labels]
            own = (
                metric.of(outputs[lane : lane + 1, rows], labels[rows], None)
                if rows.any()
                else torch.tensor([torch.nan])
            )
            np.testing.assert_allclose(float(found[lane, site]), float(own), rtol=1e-9)


def test_lists_have_one_spelling() -> None:
    text = "auc, calibration:bins=10,f1,user_modules:confident:above=0.9"
    assert metrics.canonical(text) == text.replace(" ", "")
    assert [metrics.label(spec) for spec in metrics.listed(text)] == ["auc", "calibration", "f1", "confident"]
    assert metrics.canonical("calibration:bins=15") == "calibration"
    setting = Setting(metrics=text)
    assert setting.paths == ["user_modules:confident"]
    assert "user_modules" in setting.made_of.code
    outputs = torch.tensor([[[0.0, 3.0], [0.0, 0.1]]])
    own = metrics.build(["user_modules:confident:above=0.9"], data(2))["confident"]
    assert own.of(outputs, torch.tensor([0, 1]), None).tolist() == [0.5]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("auk", "metrics: no metrics named 'auk'; did you mean 'auc'?"),
        ("auc,auc", "metrics: 'auc' is given twice in 'auc,auc'; each once is right"),
        ("none,auc", "metrics: 'none,auc' has 'none' among others; none alone is right"),
        ("calibration:bins=x", "metrics: calibration:bins=x is not a whole number"),
    ],
)
def test_a_list_that_cannot_be_is_refused(text: str, line: str) -> None:
    with pytest.raises(BadInput) as error:
        Setting(metrics=text)
    assert str(error.value) == line


@pytest.mark.parametrize(
    ("spec", "classes", "line"),
    [
        ("mse", 3, "metrics: mse is of predicted numbers, which this data set has none of; auc is right"),
        ("auc", 0, "metrics: auc is of predicted classes, which this data set has none of; mse is right"),
        ("top5", 5, "metrics: top5 of 5 classes is 100 whatever is answered; above 5 is right"),
        ("calibration:bins=0", 2, "metrics: calibration:bins=0; at least 1 is right"),
        ("per_class", 0, "metrics: per_class is of classes, and this data set has none; mse is right"),
    ],
)
def test_a_metric_that_does_not_fit_the_data_is_refused(spec: str, classes: int, line: str) -> None:
    with pytest.raises(BadInput) as error:
        metrics.build([spec], data(classes))
    assert str(error.value) == line


def test_what_a_data_set_calls_for() -> None:
    two = data(2)
    owned = two._replace(owner=torch.zeros(1, dtype=torch.int64))
    assert metrics.wanted("", two) == []
    assert metrics.wanted("", owned) == ["accuracy", "auc"]
    assert metrics.wanted("", owned._replace(classes=3)) == ["accuracy"]
    assert metrics.wanted("none", owned) == []
    assert metrics.wanted("", data(0)) == ["mse", "r2"]
    assert metrics.wanted("", data(0)._replace(y=torch.zeros(1, dtype=torch.int64))) == []  # quadratics
    assert math.isnan(float(built("auc", 2).of(torch.zeros(1, 1, 2), torch.zeros(1, dtype=torch.int64), None)))


def test_a_plain_function_inside_a_metric_is_taken_of_every_lane() -> None:
    draw = torch.Generator().manual_seed(3)
    outputs, labels = torch.randn(2, 50, 2, generator=draw), torch.randint(0, 2, (50,), generator=draw)
    plain, said = (metrics.build([f"user_modules:{name}"], data(2))[name] for name in ("confident", "unsure"))
    np.testing.assert_allclose(said.of(outputs, labels, None), 1 - plain.of(outputs, labels, None))
    assert (plain.best, said.best) == (None, "min")
