"""One bad reply of a site costs its own leg or evaluation: never the server's run, and never another one later."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from baton.deploy.rules import Desk, Place
from baton.setting import Setting
from baton.store import Store
from bent import bent
from federation import Field, setting, train

pytestmark = pytest.mark.trust
EPOCHS = {"local_steps": 0, "epochs": 1}


def finished(s: Setting, folder: Path, bend: object) -> tuple[Store, list[str]]:
    """The run over sites of which one is bent, to its end; and what went wrong on the way."""

    class Notes(Desk):
        said: list[str]

        def at(self, place: Place) -> None:
            self.said += [place.says] if place.says else []

    field, store, notes = Field(s, folder / "field"), Store(folder / "runs"), Notes()
    field.bend, notes.said = bend, []  # type: ignore[assignment]
    train(s, field, store, notes)
    assert store.complete(s.run_id)
    return store, notes.said


@pytest.mark.parametrize(
    ("spec", "more", "where", "value"),
    [
        ("parallel", {}, (1, "has", 1), 2**63),
        ("parallel", {}, (1, "has", 1), 10**30),
        ("parallel", {}, (1, "has", 1), 2**53 + 1),
        ("parallel", {}, (1, "has", 1), 10**6),  # more than the site told that it has
        ("parallel", {}, (1, "has", 0, "of"), [1]),
        ("parallel", EPOCHS, (1, "has", 2), 10**30),
        ("parallel", EPOCHS, (1, "has", 2), 100),
        ("fednova", EPOCHS, (1, "has", 2), 2**62),
    ],
    ids=str,
)
def test_a_leg_of_impossible_numbers_is_lost(
    spec: str, more: dict[str, object], where: Sequence[object], value: object, tmp_path: Path
) -> None:
    s = setting(spec, **more, participants=5)
    store, said = finished(s, tmp_path, bent("Trained", where, value))
    metrics = store.read(s.run_id).metrics
    assert metrics["lost_legs"][-1] == s.rounds
    assert np.isfinite(metrics["test_loss"]).all()
    assert all(line.startswith("site-1: ") for line in said)


@pytest.mark.parametrize("value", [2**63, 10**30])
def test_what_is_kept_of_a_bad_leg_does_not_end_the_next_try(value: int, tmp_path: Path) -> None:
    """A run that such a reply ended once goes on when the site is honest again."""
    s = setting("parallel", participants=5)
    field, store = Field(s, tmp_path / "field"), Store(tmp_path / "runs")
    field.bend = bent("Trained", (1, "has", 1), value)
    try:
        train(s, field, store)
    except ValueError:
        field.bend = None
        train(s, field, store)  # it ended for ever: the leg's file is believed
    assert store.complete(s.run_id)


def messages(asked: bytes) -> str:
    """Which message of a leg in split form a site was sent."""
    from baton.deploy.messages import Half
    from baton.deploy.wire import unpacked

    said = unpacked(asked)
    return type(said.message).__name__ if isinstance(said, Half) else ""


@pytest.mark.parametrize(
    ("value", "more"),
    [(10**30, {}), (10**6, {}), (2, {}), (10**400, EPOCHS), (10**30, EPOCHS), (1000, EPOCHS)],
    ids=["10**30", "10**6", "2", "10**400 epochs", "10**30 epochs", "1000 epochs"],
)
def test_a_split_site_takes_no_more_steps_than_its_order_gives(
    value: int, more: dict[str, object], tmp_path: Path
) -> None:
    """The server asks for no step of such a leg, and makes room for none."""
    s = setting("ssl:cut=1", **{"participants": 5, "rounds": 1, "eval_every": 1, "local_steps": 1, **more})
    bend = bent("Halved", (2,), lambda answer: value if type(answer) is int else answer)
    sent: list[str] = []

    def noted(site: str, asked: bytes, got: bytes) -> bytes:
        sent.extend([messages(asked)] if site == "site-1" else [])
        return bend(site, asked, got)

    store, _ = finished(s, tmp_path, noted)
    assert store.read(s.run_id).metrics["lost_legs"][-1] == 1
    assert "Begin" in sent
    assert "Forward" not in sent


def test_a_split_sites_layer_outputs_are_those_of_one_batch(tmp_path: Path) -> None:
    """A batch of a thousand samples is no batch of 16, however well it fits the layers: nothing is computed of it."""
    from baton.deploy.messages import Halved
    from baton.deploy.wire import packed, unpacked
    from baton.sites.halves import Up

    sent: list[str] = []

    def larger(site: str, asked: bytes, got: bytes) -> bytes:
        said = unpacked(got)
        sent.extend([messages(asked)] if site == "site-1" else [])
        if site != "site-1" or not isinstance(said, Halved) or not isinstance(said.answer, Up):
            return got
        up = said.answer
        assert up.labels is not None
        wide = Up(*(x.repeat(1, 64, *[1] * (x.dim() - 2)) for x in (up.smashed, up.labels, up.weight)))
        return packed(said._replace(answer=wide))

    s = setting("ssl:cut=1", participants=5, rounds=1, eval_every=1, local_steps=1)
    store, _ = finished(s, tmp_path, larger)
    assert store.read(s.run_id).metrics["lost_legs"][-1] == 1
    assert "Forward" in sent
    assert "Backward" not in sent


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ((1,), 1e9),  # right answers, above the count
        ((1,), -3.0),
        ((2,), -1.0),  # samples
        ((2,), 10**400),
        ((0,), -5.0),  # the loss
        ((4,), 1e9),
        ((5,), 1e9),  # training samples, above the count it told
        ((3,), -1.0),
    ],
    ids=str,
)
def test_sums_that_cannot_be_are_left_out(where: Sequence[int], value: float, tmp_path: Path) -> None:
    """The evaluation is that of the other sites, and the server says whose was left out."""
    s = setting("parallel", participants=5)
    store, said = finished(s, tmp_path / "bent", bent("Sums", where, value))
    silent, _ = finished(s, tmp_path / "silent", lambda site, _, got: _without_sums(site, got))
    for name in ("test_accuracy", "test_loss", "train_accuracy", "train_loss"):
        found, wanted = (each.read(s.run_id).metrics[name] for each in (store, silent))
        np.testing.assert_array_equal(found, wanted, err_msg=name)
    assert any(line.startswith("site-1: ") for line in said)


def _without_sums(site: str, got: bytes) -> bytes:
    from baton.deploy import frames
    from baton.deploy.messages import Refused, Sums
    from baton.deploy.wire import unpacked

    said = unpacked(got)
    return frames.refusal("failed") if site == "site-1" and isinstance(said, Sums | Refused) else got


def test_a_count_above_the_one_it_told_before_is_left_out(tmp_path: Path) -> None:
    """From its second evaluation on a site has a thousand times as many test rows, all of them right."""
    s = setting("parallel", participants=5, rounds=2, eval_every=1)
    seen: list[str] = []

    def grows(site: str, _asked: bytes, got: bytes) -> bytes:
        from baton.deploy.messages import Sums
        from baton.deploy.wire import packed, unpacked

        said = unpacked(got)
        if site != "site-1" or not isinstance(said, Sums):
            return got
        seen.append(site)
        count = said.test_count * 1000
        return got if len(seen) == 1 else packed(said._replace(test_count=count, test_right=count))

    store, said = finished(s, tmp_path, grows)
    assert store.read(s.run_id).metrics["test_accuracy"][-1] < 90
    assert any(line.startswith("site-1: ") for line in said)


@pytest.mark.parametrize("value", [float("inf"), -7.0, 1e30])
def test_a_sites_own_metric_is_held_to_its_range(value: float, tmp_path: Path) -> None:
    import torch

    from baton.deploy.messages import Sums
    from baton.deploy.wire import packed, unpacked

    s = setting("parallel", participants=5, metrics="auc")

    def lies(site: str, _asked: bytes, got: bytes) -> bytes:
        said = unpacked(got)
        if site != "site-1" or not isinstance(said, Sums):
            return got
        return packed(said._replace(metrics={"auc": torch.tensor(value)}))

    store, _ = finished(s, tmp_path, lies)
    metrics = store.read(s.run_id).metrics
    for name in ("site_auc_mean", "site_auc_best", "site_auc_worst"):
        assert 0 <= metrics[name][-1] <= 1, name


def test_a_look_that_cannot_be_read_does_not_end_a_run(tmp_path: Path) -> None:
    """At its beginning, and each time that it is begun again."""
    s = setting("parallel", participants=5)
    finished(s, tmp_path, bent("Here", (0,), "many"))


@pytest.mark.parametrize("shape", [[0, 2**47, 2**47], [2**40, 2**40, 0]], ids=str)
def test_an_array_of_an_impossible_shape_is_no_message(shape: list[int]) -> None:
    from baton.deploy.frames import Garbled, joined
    from baton.deploy.wire import unpacked

    says = {"is": "Halved", "has": ["0.0", 0, {"at": 0}]}
    with pytest.raises(Garbled):
        unpacked(joined({"says": says, "arrays": [["float32", shape]]}, []))
