"""A federation's plan: each mistake in one line; what is made of a sound one."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from baton.cli import app
from baton.deploy import plan
from baton.deploy.coordinator import possible
from baton.deploy.flare import kits
from baton.errors import BadInput
from federation import setting

GOOD: dict[str, Any] = {
    "federation": {"name": "hearts", "server": "localhost", "port": 8002},
    "sites": [{"name": "berlin", "org": "charite"}, {"name": "lyon-1"}],
    "data": {"features": ["age", "chol"], "label": "sick", "classes": ["0", "1"]},
    "run": {"algorithm": "sequential", "rounds": 3},
    "lost": {"wait": 60, "then": "retry:times=2"},
    "times": {"leg": 30},
    "checks": {"norm": 5},
}


def test_a_sound_plan() -> None:
    found = plan.parse(GOOD)
    assert found.setting.clients == 2
    assert found.setting.failures == "real"
    assert found.setting.on_failure == "retry"
    assert found.setting.dataset.startswith("sites:of=hearts-")
    assert found.rules().sites == ("berlin", "lyon-1")
    assert (found.leg, found.wait, found.norm, found.org("lyon-1")) == (30.0, 60.0, 5.0, "lyon_1")
    assert plan.parse({**GOOD, "lost": {"then": "later"}}).later


def test_other_data_is_another_run() -> None:
    other = copy.deepcopy(GOOD)
    other["data"]["mean"], other["data"]["scale"] = [1, 2], [3, 4]
    assert plan.parse(other).setting.run_id != plan.parse(GOOD).setting.run_id


def test_it_is_kept(tmp_path: Path) -> None:
    found = plan.parse(GOOD)
    found.save(tmp_path)
    assert plan.load(tmp_path) == found
    with pytest.raises(BadInput, match="no plan in"):
        plan.load(tmp_path / "nowhere")


def test_a_simulated_run_is_taken_over() -> None:
    run = setting("scaffold", clients=2, participants=2, failures="none")
    found = plan.parse({k: v for k, v in GOOD.items() if k not in ("data", "run", "lost")}, run)
    same = {**run.model_dump(), "failures": "real"}
    assert found.setting.model_dump() == same
    with pytest.raises(BadInput, match="sites: 2 of them, and the run has clients = 5"):
        plan.parse({k: v for k, v in GOOD.items() if k != "data"}, setting("scaffold"))


@pytest.mark.parametrize(
    ("where", "value", "line"),
    [
        (("federation", "name"), "two words", "federation: name: 'two words'"),
        (("federation", "server"), "a b", "no name of a machine"),
        (("federation", "port"), 70000, "port: 70000; 1 to 65535"),
        (("federation", "prt"), 1, "federation: no 'prt'; did you mean 'port'?"),
        (("sites",), [], "sites: none"),
        (("sites",), [{"name": "a"}, {"name": "a"}], "sites: a is there twice"),
        (("sites",), [{"name": "a b"}], "sites: 'a b'"),
        (("sites",), [{"name": "a", "org": "ü"}], "sites: org: 'ü'"),
        (("data", "classes"), ["1"], "at least two"),
        (("run", "algorithm"), "pooled", "pools all samples in one place, and sites keep theirs"),
        (("run", "validation"), 0.1, "validation: 0.1; sites hold no training samples back"),
        (("data", "features"), ["a", "a"], "a list of different words"),
        (("data", "mean"), [1.0], "data: mean: 1 of them; a number for each of the 2 features"),
        (("data", "scale"), [1.0, 0.0], "scale: numbers above 0"),
        (("run", "algorithm"), "sequental", "no algorithm named 'sequental'"),
        (("run", "failures"), "none", "run: failures is not for here"),
        (("run", "model"), "my.module:model", "my.module"),
        (("lost", "then"), "wait", "no on_failure named 'wait'"),
        (("lost", "wait"), -1, "lost: wait: -1"),
        (("times", "leg"), 0, "times: leg: 0"),
        (("times", "leg"), "long", "times: leg: 'long' is not right"),
        (("tmes",), {}, "no table 'tmes'; did you mean 'times'?"),
    ],
)
def test_each_mistake_is_one_line(where: tuple[str, ...], value: Any, line: str) -> None:
    table = copy.deepcopy(GOOD)
    inner = table
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    with pytest.raises(BadInput) as error:
        plan.parse(table)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_several_algorithms_are_runs_one_after_another(tmp_path: Path) -> None:
    table = copy.deepcopy(GOOD)
    table["run"]["algorithm"] = ["sequential", "parallel"]
    found = plan.parse(table)
    assert [s.algorithm for s in found.runs] == ["sequential", "parallel"]
    assert found.runs[0] == plan.parse(GOOD).setting  # each is the run that it is alone
    found.save(tmp_path)
    assert plan.load(tmp_path) == found
    for wrong in ([], ["parallel", "parallel"]):
        table["run"]["algorithm"] = wrong
        with pytest.raises(BadInput, match="one, or a list of different ones, is right"):
            plan.parse(table)


def test_a_run_that_no_server_could_carry_out_is_refused_when_it_is_planned() -> None:
    table = copy.deepcopy(GOOD)
    table["run"]["algorithm"] = "fedseq:groups=3"
    with pytest.raises(BadInput, match="groups=3; at most S = 2 is right"):
        possible(plan.parse(table).setting)


def test_the_command_line_says_what_is_missing(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    for words, line in (
        (["deploy", "plan", str(tmp_path / "no.toml")], "plan: no file"),
        (["deploy", "status", str(tmp_path)], "no plan in"),
        (["site", "start", str(tmp_path), "--data", "x.csv"], "is no kit of a site"),
    ):
        done = CliRunner().invoke(app, words)
        assert isinstance(done.exception, BadInput)
        assert line in str(done.exception)


def test_kits_lock_a_site_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our classes alone, no code that comes with a job, no logs that leave, nobody who looks at files."""
    pytest.importorskip("nvflare", reason="pip install 'baton-fl[deploy]' for runs over real sites")
    found = plan.parse(GOOD)
    monkeypatch.chdir(tmp_path)
    kits.provision(found, Path("."))
    assert str(tmp_path / "flare" / "jobs") in (tmp_path / "kits/localhost/local/resources.json").read_text()
    local = tmp_path / "kits" / "berlin" / "local"
    resources = json.loads((local / "resources.json").read_text())
    rights = json.loads((local / "authorization.json").read_text())["permissions"]
    assert resources["class_allow_list"] == kits.SITE_CLASSES
    assert resources["class_list_enforcement_mode"] == "enforce"
    assert resources["allow_log_streaming"] is False
    assert "log" not in json.dumps([each["id"] for each in resources["components"]])
    assert list(rights) == ["project_admin"]
    assert (rights["project_admin"]["byoc"], rights["project_admin"]["shell_commands"]) == ("none", "none")
    before = (tmp_path / "kits" / "lyon-1" / "startup" / "client.crt").read_bytes()
    kits.provision(found, tmp_path)
    assert (tmp_path / "kits" / "lyon-1" / "startup" / "client.crt").read_bytes() == before
    keys = [path for path in tmp_path.rglob("*.key") if "kits" in path.parts]
    assert len(keys) == 4  # the server's, two sites', the admin's
