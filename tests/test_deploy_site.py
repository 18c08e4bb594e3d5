"""What a site says yes and no to, what it tells, what is believed of it, and that its failures stay its own."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from baton.deploy import policy, rows
from baton.deploy.frames import Garbled, joined, parted
from baton.deploy.messages import WHYS, Evaluate, Here, Look, Refused, Sums, Train, Trained
from baton.deploy.place import Place
from baton.deploy.policy import Policy
from baton.deploy.rules import Desk
from baton.deploy.rules import Place as Standing
from baton.deploy.site import Site
from baton.deploy.trainer import Trainer
from baton.deploy.wire import packed, unpacked
from baton.errors import BadInput
from baton.sites.visit import Answer, Order, Own
from baton.store import Store
from federation import Field, samples, setting, train
from test_deploy_run import same, simulation


def first(s: object) -> dict[str, torch.Tensor]:
    from baton.deploy.like import like

    return {n: x[0] for n, x in Own(s, like(s)).net.init([s.seed]).items()}  # type: ignore[attr-defined, arg-type]


def leg(s: object, number: str = "0.0") -> Train:
    numbers = (0, s.seed, 0, 0, s.local_steps, s.batch_size, s.lr, s.clip, s.weight_decay)  # type: ignore[attr-defined]
    controls = {n: torch.zeros_like(x) for n, x in first(s).items()} if s.algorithm == "scaffold" else {}  # type: ignore[attr-defined]
    order = Order(first(s), *numbers, sent=controls, epochs=s.epochs)  # type: ignore[attr-defined]
    return Train(s.to_json(), number, "", order)  # type: ignore[attr-defined]


# --- messages


@given(st.binary(max_size=300))
def test_garbage_is_no_message(data: bytes) -> None:
    with pytest.raises(Garbled):
        unpacked(data)


@given(cut=st.integers(0, 2000), flip=st.integers(0, 2000), to=st.integers(0, 255))
def test_a_damaged_message_is_refused_or_another_message(cut: int, flip: int, to: int) -> None:
    """Nothing but Garbled is ever raised, whatever bytes come."""
    whole = bytearray(packed(Trained("1.2", Answer({"w": torch.ones(3, 2)}, 5, 3)), 9.0))
    whole[flip % len(whole)] = to
    for data in (bytes(whole), bytes(whole[: cut % len(whole)])):
        try:
            unpacked(data)
        except Garbled:
            continue


def test_messages_come_back_as_they_were() -> None:
    order = Order({"w": torch.randn(2, 3, dtype=torch.float64)}, 1, 2, 3, 0, 4, 5, 0.1, anchor=None, sent={})
    back = unpacked(packed(Train("{}", "3.4", "", order), 7.0))
    assert isinstance(back, Train)
    assert back._replace(order=back.order._replace(model={})) == Train("{}", "3.4", "", order._replace(model={}))
    assert torch.equal(back.order.model["w"], order.model["w"])
    empty = unpacked(packed(Trained("", Answer({"w": torch.empty(0, 3)}, 0, 0))))
    assert isinstance(empty, Trained)
    assert empty.answer.model["w"].shape == (0, 3)


def test_fields_of_another_type_are_refused() -> None:
    head, body = parted(packed(Here(3, "1")))
    head["says"]["has"][0] = "three"
    with pytest.raises(Garbled, match="Here of other fields"):
        unpacked(joined(head, [bytes(body)]))
    head["says"] = {"is": "Here", "has": [float("nan"), "1"]}
    with pytest.raises(Garbled):
        unpacked(joined(head, [bytes(body)]))


# --- bad replies


def bad(kind: str, frame: bytes, got: bytes) -> bytes:
    said, asked = unpacked(got), unpacked(frame)
    if not isinstance(said, Trained):
        return got
    assert isinstance(asked, Train)
    answer = said.answer
    model = {n: x.clone() for n, x in answer.model.items()}
    name = next(iter(model))
    if kind == "nan":
        model[name].view(-1)[0] = float("nan")
    elif kind == "shape":
        model[name] = model[name][:1]
    elif kind == "type":
        model[name] = model[name].double()
    elif kind == "leaf":
        del model[name]
    elif kind == "huge":
        model[name] += 1e3
    elif kind == "leg":
        return packed(said._replace(leg="7.7"))
    elif kind == "steps":
        answer = answer._replace(steps=10**6)
    elif kind == "none":
        return b""
    elif kind == "else":
        return packed(Here(1, "0"))
    return packed(Trained(said.leg, answer._replace(model=model)))


@pytest.mark.parametrize("kind", ["nan", "shape", "type", "leaf", "huge", "leg", "steps", "none", "else"])
def test_bad_replies_are_refused_and_the_chain_goes_on(kind: str, tmp_path: Path) -> None:
    """The run is the one in which that site's legs are lost."""
    s = setting("sequential", participants=5, rounds=2, eval_every=2)
    field, store, told = Field(s, tmp_path / "a"), Store(tmp_path / "a-runs"), list[str]()
    field.bend = lambda site, frame, got: bad(kind, frame, got) if site == "site-3" else got

    class Notes(Desk):
        def at(self, place: Standing) -> None:
            told.append(place.says)

    train(s, field, store, Notes(), norm=50.0)
    without = Field(s, tmp_path / "b")

    def losing(site: str, number: int) -> bool:
        del number
        return site == "site-3" and without.training

    without.training = False  # type: ignore[attr-defined]
    plain = without.call

    def call(site: str, frame: bytes, seconds: float) -> bytes:
        without.training = isinstance(unpacked(frame), Train)  # type: ignore[attr-defined]
        return plain(site, frame, seconds)

    without.call, without.losing = call, losing  # type: ignore[method-assign]
    other = Store(tmp_path / "b-runs")
    train(s, without, other)
    torch.testing.assert_close(store.params(s.run_id), other.params(s.run_id), rtol=0, atol=0)
    assert store.read(s.run_id).metrics["lost_legs"][-1] == 2
    assert sum(line.startswith("site-3: ") for line in told) == 2


# --- the policy


@pytest.mark.parametrize(
    ("given", "spec", "why"),
    [
        ({"algorithms": ["parallel"]}, "sequential", "algorithm"),
        ({"models": ["logistic"]}, "sequential", "model"),
        ({"most_steps": 2}, "sequential", "steps"),
        ({"least_samples": 10**6}, "sequential", "samples"),
        ({"sizes": False}, "parallel:weighting=size", "sizes"),
        ({"sizes": False}, "fedseq:groups=1,weighting=size", "sizes"),
        ({"sizes": False, "algorithms": ["ssl"]}, "ssl:cut=1,passes=1", "sizes"),
        ({}, "ssl:cut=1", "algorithm"),
        ({}, "splitfed:cut=1", "algorithm"),
        ({}, "switch:first=ssl:cut=1,then=ssl:cut=1,after=1", "algorithm"),
        ({"algorithms": ["switch", "sequential"]}, "switch:after=1", "algorithm"),
        ({"least_rows": 49}, "sequential", "rows"),
    ],
)
def test_a_site_says_no(given: dict[str, object], spec: str, why: str, tmp_path: Path) -> None:
    s = setting(spec)
    site = Site(samples(s)[0], Policy(**{"least_samples": 0, **given}), tmp_path)
    for message in (Look(s.to_json()), leg(s)):
        assert unpacked(site.handle(packed(message, 9.0))) == Refused(why)
    with pytest.raises(BadInput, match=f"site site-0: it refuses: {WHYS[why]}"):
        train(s, Field(s, tmp_path, Policy(**{"least_samples": 0, **given})), Store(tmp_path / "runs"))


def test_code_of_others_is_not_even_looked_up(tmp_path: Path) -> None:
    s = setting("sequential")
    text = s.to_json().replace("mlp:hidden=6", "evil.module:model")
    site = Site(samples(s)[0], Policy(), tmp_path)
    assert unpacked(site.handle(packed(Look(text), 9.0))) == Refused("code")


def test_a_site_opens_no_file_that_a_run_names(tmp_path: Path) -> None:
    s = setting("sequential")
    text = s.to_json().replace('"digits"', '"csv:/etc/passwd,label=x"')
    assert text != s.to_json()
    site = Site(samples(s)[0], Policy(least_samples=0), tmp_path)
    assert unpacked(site.handle(packed(Look(text), 9.0))) == Refused("files")


def test_passes_count_as_the_steps_that_they_are(tmp_path: Path) -> None:
    """Of a policy's most steps, and of what tells how many samples there are."""
    s = setting("sequential", epochs=2, local_steps=0)
    mine = samples(s)[0]
    count = 2 * -(-len(mine.y) // s.batch_size)
    for rules, why in ((Policy(least_samples=0, most_steps=count - 1), "steps"), (Policy(sizes=False), "sizes")):
        assert unpacked(Site(mine, rules, tmp_path).handle(packed(Look(s.to_json()), 9.0))) == Refused(why)
    fits = Site(mine, Policy(least_samples=0, most_steps=count), tmp_path)
    assert isinstance(unpacked(fits.handle(packed(Look(s.to_json()), 9.0))), Here)


def test_sizes_and_metrics_are_told_or_not(tmp_path: Path) -> None:
    s, mine = setting("parallel"), samples(setting("parallel"))[0]
    ask = [packed(Look(s.to_json()), 9.0), packed(leg(s), 9.0), packed(Evaluate(s.to_json(), first(s), True), 9.0)]

    def told(rules: Policy) -> tuple[int, int, Sums]:
        site = Site(mine, rules, tmp_path)
        here, trained, sums = (unpacked(site.handle(frame)) for frame in ask)
        assert isinstance(here, Here)
        assert isinstance(trained, Trained)
        assert isinstance(sums, Sums)
        return here.samples, trained.answer.samples, sums

    count = len(mine.y)
    assert told(Policy(least_samples=0))[:2] == (count, count)
    assert told(Policy(least_samples=0))[2].train_count == count
    assert told(Policy(least_samples=0, sizes=False, metrics=False)) == (-1, 1, Sums(*[0.0] * 6))
    without = told(Policy(least_samples=0, sizes=False))[2]  # means over the rows, whose number is not told
    assert (without.train_count, without.test_count) == (1, 1)
    assert without.train_loss == pytest.approx(told(Policy(least_samples=0))[2].train_loss / count)


def test_noise_on_numbers_is_a_sites_own_and_the_same_when_asked_again(tmp_path: Path) -> None:
    s, mine = setting("parallel"), samples(setting("parallel"))[0]

    def told(folder: str) -> tuple[int, Sums]:
        (tmp_path / folder).mkdir(exist_ok=True)
        site = Site(mine, Policy(least_samples=0, noise=0.3), tmp_path / folder)
        ask = packed(Look(s.to_json()), 9.0), packed(Evaluate(s.to_json(), first(s), True), 9.0)
        here, sums = (unpacked(site.handle(frame)) for frame in ask)
        assert isinstance(here, Here)
        assert isinstance(sums, Sums)
        assert here.samples == sums.train_count
        assert 0 <= sums.train_right <= sums.train_count
        return here.samples, sums._replace(metrics={})

    every = [told(f"site-{i}") for i in range(20)]
    assert len({count for count, _ in every}) > 5
    assert len({sums.train_loss for _, sums in every}) > 5
    assert told("site-3") == every[3]


def test_errors_carry_no_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever fails inside, one known word is all that leaves."""
    s = setting("sequential")
    mine = samples(s)[0]
    mine.y = torch.full_like(mine.y, 10**6)  # a label that no model has: training would fail
    site = Site(mine, Policy(least_samples=0), tmp_path)
    answer = site.handle(packed(leg(s), 9.0))
    assert parted(answer)[0].keys() == {"refused"}
    assert unpacked(answer) == Refused("shape")
    site._open = None
    site.policy = None  # type: ignore[assignment]
    assert unpacked(site.handle(packed(leg(s), 9.0))) == Refused("failed")
    assert "Traceback" in capsys.readouterr().err  # in the site's own log


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("algoritms = []", "no field 'algoritms'; did you mean 'algorithms'?"),
        ("algorithms = ['fedavg']", "algorithms: no 'fedavg'"),
        ("most_steps = 0", "most_steps: 0 is not right"),
        ("noise = 'much'", "noise: 'much' is not right"),
        ("= 3", "not TOML"),
    ],
)
def test_a_policy_is_checked_in_one_line(text: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(BadInput) as error:
        policy.read(tmp_path / "policy.toml")
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_the_policy_that_is_written_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(policy.WRITTEN)
    assert policy.read(tmp_path / "policy.toml") == Policy()


# --- rows

DATA = {"features": ["age", "bp"], "label": "sick", "classes": ["no", "yes"], "mean": [50.0, 100.0], "scale": [10, 20]}


def test_rows_of_a_csv_file(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(
        "bp,name,ill,age\n" + "".join(f"{100 + i},x,{'yes' if i % 2 else 'no'},{50 + i}\n" for i in range(10))
    )
    found = rows.samples(file, DATA, "ill")
    assert found.test_y.tolist() == [0, 1]
    assert found.y.tolist() == [1, 0, 1, 0, 0, 1, 0, 1]
    torch.testing.assert_close(found.x[0], torch.tensor([0.1, 0.05]))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "no column 'age'; it is empty"),
        ("age,bp\n1,2\n", "no column 'sick'"),
        ("age,bp,sick\n", "no rows"),
        ("age,bp,sick\n1,2\n", "line 2 has 2 cells, not 3"),
        ("age,bp,sick\n1,secret,no\n", "line 2: its 'bp' is no number"),
        ("age,bp,sick\n1,2,secret\n", "line 2: its 'sick' is none of the federation's classes"),
    ],
)
def test_bad_rows_are_named_without_their_values(text: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(BadInput) as error:
        rows.samples(tmp_path / "a.csv", DATA)
    assert line in str(error.value)
    assert "secret" not in str(error.value)


# --- the process that trains


def test_a_sites_failure_is_an_answer_and_not_its_end(tmp_path: Path) -> None:
    """Killed, hung and begun again: one real child process."""
    s = setting("scaffold", rounds=1)
    mine = samples(s)[0]
    save_file({"x": mine.x, "y": mine.y}, tmp_path / "mine.safetensors")
    (tmp_path / "policy.toml").write_text("least_samples = 0\nmost_steps = 100_000_000\n")
    names = [str(tmp_path / name) for name in ("policy.toml", "kept", "site.log")]
    Place("site-0", str(tmp_path / "mine.safetensors"), "", *names, None).write(tmp_path / "site.json")
    trainer = Trainer(tmp_path / "site.json")
    message = leg(s)
    frame = packed(message, 60.0)
    slow = leg(setting("scaffold", rounds=1, local_steps=50_000_000))
    endless, long = packed(slow, 3.0), packed(slow, 60.0)
    try:
        good = trainer.ask(frame)
        assert isinstance(unpacked(good), Trained)
        found: list[bytes] = []
        thread = threading.Thread(target=lambda: found.append(trainer.ask(long)))
        thread.start()
        time.sleep(0.5)
        assert trainer._child is not None
        os.kill(trainer._child.pid, signal.SIGKILL)
        thread.join()
        assert unpacked(found[0]) == Refused("memory")  # as the system does when there is none left
        assert trainer.ask(frame) == good  # a new process, the same answer: the leg counted once
        assert unpacked(trainer.ask(endless)) == Refused("time")
        assert trainer.ask(frame) == good
        thread = threading.Thread(target=lambda: found.append(trainer.ask(long)))
        thread.start()
        time.sleep(0.5)
        assert trainer.ask(frame) == good  # the server has given the long one up
        thread.join()
        assert isinstance(unpacked(found[1]), Refused)
        assert unpacked(trainer.ask(b"nothing")) == Refused("message")
    finally:
        trainer.end()


def test_waiting_gets_over_a_crash(tmp_path: Path) -> None:
    from baton.deploy.frames import refusal

    s = setting("scaffold", rounds=2, eval_every=2)
    field, store, seen = Field(s, tmp_path), Store(tmp_path / "runs"), set[int]()

    def crash(site: str, _frame: bytes, got: bytes) -> bytes:
        if site == "site-1" and len(seen) < 3:
            seen.add(len(field.calls))
            return refusal("crash")
        return got

    field.bend = crash
    train(s, field, store, wait=60.0)
    assert len(seen) == 3
    same(store, s, simulation(s))


def test_a_server_believes_a_site_whose_numbers_are_blurred(tmp_path: Path) -> None:
    """Noise leaves sizes, steps and metrics what they can be: no leg is lost, and no site's numbers are left out."""
    more = {"local_steps": 0, "epochs": 1, "metrics": "auc,accuracy", "eval_every": 1}
    s, store, told = setting("fednova", **more), Store(tmp_path / "runs"), list[str]()

    class Notes(Desk):
        def at(self, place: Standing) -> None:
            told.append(place.says)

    train(s, Field(s, tmp_path, Policy(least_samples=0, noise=0.5)), store, Notes())
    assert store.read(s.run_id).metrics["lost_legs"][-1] == 0
    assert set(told) == {""}
