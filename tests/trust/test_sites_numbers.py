"""What a site tells beside its legs: sizes, losses, metrics; and what it says of that when it starts."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attacks import ask, order, plain, rows, site, zeros
from baton.cli import app
from baton.deploy import policy
from baton.deploy.messages import Evaluate, Here, Look, Refused, Sums, Train, Trained
from baton.deploy.policy import Policy
from baton.store import Store
from federation import Field, setting, train

pytestmark = pytest.mark.trust

DP = {"dp": "gaussian:clip=1,noise=5"}
BOUNDS = [{"least_noise": 5.0}, {"most_epsilon": 50.0}]


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_policy_that_asks_for_noise_tells_no_exact_numbers(bound: dict[str, float], tmp_path: Path) -> None:
    s, at = plain(**DP), site(tmp_path, **bound)
    sums = ask(at, Evaluate(s.to_json(), zeros(s), True))
    assert isinstance(sums, Sums)
    assert [*sums[:6], *sums.metrics] == [0.0] * 6


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_policy_that_asks_for_noise_tells_no_sizes(bound: dict[str, float], tmp_path: Path) -> None:
    s, at = plain(**DP), site(tmp_path, **bound)
    here, leg = ask(at, Look(s.to_json())), ask(at, Train(s.to_json(), "0.0", "", order(s)))
    assert isinstance(here, Here)
    assert isinstance(leg, Trained)
    assert (here.samples, leg.answer.samples) == (-1, 1)


def test_beside_noise_a_run_has_as_many_evaluations_as_it_says_and_no_more(tmp_path: Path) -> None:
    """Differences of losses of many models are the gradient, outside epsilon."""
    s = setting("sequential", clients=2, participants=2, rounds=4, eval_every=2, **DP)
    field = Field(s, tmp_path / "sites", Policy(least_samples=0, least_noise=5.0, metrics=True))
    train(s, field, Store(tmp_path / "runs"))
    assert len(Store(tmp_path / "runs").read(s.run_id).metrics["test_loss"]) == 3  # R / eval_every + 1
    at = field.new("site-0")
    model = {n: x + 1 for n, x in Store(tmp_path / "runs").params(s.run_id).items()}
    answers = []
    for k in range(5):
        moved = {n: x + 0.05 * k for n, x in model.items()}
        answers.append(ask(at, Evaluate(s.to_json(), moved, True)))
    assert all(isinstance(each, Refused) for each in answers)


def test_numbers_beside_noise_are_told_of_in_the_sites_log_and_at_its_start(tmp_path: Path) -> None:
    s, folder = plain(**DP), tmp_path / "kit" / "kept"
    at = site(folder, least_noise=5.0, metrics=True)
    first = ask(at, Evaluate(s.to_json(), zeros(s), True))
    assert isinstance(first, Sums)
    again = ask(site(folder, least_noise=5.0, metrics=True), Evaluate(s.to_json(), zeros(s), True))
    assert again == first
    logs = "".join(path.read_text() for path in folder.iterdir() if path.suffix.startswith(".json"))
    assert logs.count("exact numbers, outside epsilon") == 1  # the second was answered from the record
    said = started(tmp_path / "kit", "least_noise = 5.0\nmetrics = true\n")
    assert "4 exact numbers, outside epsilon" in said


def test_the_noise_on_numbers_does_not_average_out(tmp_path: Path) -> None:
    s, at = plain(), site(tmp_path, noise=0.3)
    every = [ask(at, Evaluate(s.to_json(), zeros(s), True)) for _ in range(20)]
    assert len({each.train_loss for each in every if isinstance(each, Sums)}) == 1


def test_the_noise_on_the_size_is_the_same_for_every_run(tmp_path: Path) -> None:
    at = site(tmp_path, noise=0.3)
    every = [ask(at, Look(plain(seed=seed).to_json())) for seed in range(20)]
    assert len({each.samples for each in every if isinstance(each, Here)}) == 1


def test_sizes_that_are_not_told_are_not_in_the_sums_either(tmp_path: Path) -> None:
    s, at = plain(), site(tmp_path, sizes=False)
    sums = ask(at, Evaluate(s.to_json(), zeros(s), True))
    assert isinstance(sums, Sums)
    assert (sums.train_count, sums.test_count) == (1, 1)


def test_a_size_that_is_not_told_is_not_found_by_asking_for_more_and_more_passes(tmp_path: Path) -> None:
    at = site(tmp_path, sizes=False, most_steps=100)
    said = [ask(at, Look(plain(local_steps=0, epochs=epochs).to_json())) for epochs in (1, 49, 51, 1000)]
    assert len(set(said)) == 1


# --- what a site says when it starts


def started(kit: Path, rules: str) -> str:
    """What `baton site start` prints of a handmade kit, up to its question."""
    for folder in ("local", "startup"):
        (kit / folder).mkdir(parents=True, exist_ok=True)
    data = {"features": ["a", "b", "c", "d"], "label": "y", "classes": ["0", "1"]}
    told = {"federation": "t", "site": "north", "org": "north", "data": data}
    (kit / "local" / "baton.json").write_text(json.dumps(told))
    client = {"servers": [{"service": {"target": "localhost:8002"}}]}
    (kit / "startup" / "fed_client.json").write_text(json.dumps(client))
    (kit / "local" / "policy.toml").write_text(rules)
    held = rows()
    lines = [",".join([*map(repr, x), str(y)]) for x, y in zip(held.x.tolist(), held.y.tolist(), strict=True)]
    (kit / "rows.csv").write_text("a,b,c,d,y\n" + "\n".join(lines) + "\n")
    done = CliRunner().invoke(app, ["site", "start", str(kit), "--data", str(kit / "rows.csv")], input="n\n")
    return done.output + ("" if isinstance(done.exception, SystemExit) else f"\n{done.exception}")


@pytest.mark.parametrize(
    "rules",
    [policy.WRITTEN, 'algorithms = ["parallel"]\nmetrics = false\n', "least_noise = 1.0\nmetrics = true\n"],
    ids=["as written", "one method", "exact numbers"],
)
def test_never_rows_is_not_said_where_rows_can_be_learnt(rules: str, tmp_path: Path) -> None:
    said = started(tmp_path, rules)
    assert "Do you agree?" in said
    assert "never: rows" not in said
    assert ("no noise" in said) == ("least_noise = 1.0" not in rules)


def test_split_methods_are_said_to_show_rows_where_they_are_named(tmp_path: Path) -> None:
    said = started(tmp_path, 'algorithms = ["ssl"]\n')
    (line,) = [line for line in said.splitlines() if line.startswith("- in split learning")]
    assert "rows" in line


def test_a_secret_of_another_length_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "secret").write_bytes(b"")
    said = started(tmp_path, policy.WRITTEN)
    assert "Do you agree?" not in said
    assert "0 bytes" in said
