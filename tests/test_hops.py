"""Along the chain: every site after every hand-over, against rounds written out by hand; the run stays as it is."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from baton import cli, datasets, run, study
from baton.errors import BadInput
from baton.measure import hops
from baton.measure.forgetting import Hops
from baton.report import report
from baton.setting import Setting
from baton.simulate.engine import Program, advance, start
from baton.store import Store
from contracts.examples import CPU

COMMON = {"dataset": "user_modules:hospitals", "partition": "natural", "clients": 4, "rounds": 5, "eval_every": 5}


def accuracies(module: torch.nn.Module, data: datasets.Dataset) -> list[float]:
    with torch.no_grad():
        right = (module(data.test_x).argmax(1) == data.test_y).double()
    assert data.test_owner is not None
    return [float(100 * right[data.test_owner == m].mean()) for m in range(4)]


@pytest.mark.parametrize("algorithm", ["sequential", "parallel"])
def test_a_round_is_what_a_plain_loop_makes_of_it(algorithm: str) -> None:
    setting = Setting(**COMMON, algorithm=algorithm, metrics="accuracy")
    found = {each.round: each for each in hops.measure(setting, [0, 3], CPU)}
    program, data = Program([setting], CPU), datasets.load("user_modules:hospitals", 4)
    snapshots = [start(program)]
    snapshots += list(advance(program, snapshots[0]))
    for round, each in found.items():
        begin, end = (snapshots[i].state.model for i in (round, round + 1))

        def fares(x: dict[str, torch.Tensor]) -> list[float]:
            module = program.net.build()
            module.load_state_dict({name: leaf[0] for name, leaf in x.items()})
            return accuracies(module, data)

        order = program.order(round)[0].tolist()
        assert (each.visitor, each.chain) == (order, algorithm == "sequential")
        np.testing.assert_allclose(each.begin, fares(begin), rtol=1e-5)
        np.testing.assert_allclose(each.end, fares(end), rtol=1e-5)
        x = begin
        for hop, client in enumerate(order):
            given = x if each.chain else begin
            module = program.net.build()
            module.load_state_dict({name: leaf[0] for name, leaf in given.items()})
            batches = program.ahead(round, program.order(round))[hop]
            for k in range(setting.local_steps):
                used = batches.weight[0, k] > 0
                at = batches.places[0, k][used]
                module.zero_grad()
                data.loss(module(data.x[at]), data.y[at]).mean().backward()
                with torch.no_grad():
                    for parameter in module.parameters():
                        parameter -= setting.lr * parameter.grad
            x = {name: leaf.detach().unsqueeze(0) for name, leaf in module.named_parameters()}
            np.testing.assert_allclose(each.given[hop], fares(given), rtol=1e-5)
            np.testing.assert_allclose(each.made[hop], fares(x), atol=1.7)  # one row of a site at most
            assert each.client[each.visits()[hop].site] == client


def test_gains_costs_and_the_last_sites_advantage() -> None:
    two = Hops(0, "auc", "max", ["a", "b"], [0, 1], True, [1, 0], [[1, 2], [3, 5]], [[3, 5], [7, 4]], [1, 2], [7, 4])
    b, a = two.visits()
    assert (b.site, b.gain, b.cost) == (1, 3, 1)
    assert (a.site, a.gain, a.cost) == (0, 4, 0)
    assert two.advantage == 3
    less = two._replace(best="min")
    assert [v.gain for v in less.visits()] == [-3, -4]
    assert less.advantage == -3
    assert two._replace(end=[None, 4]).visits() == [b]
    assert two._replace(chain=False).advantage is None


def test_the_command_line_tells_it_and_the_run_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "-d", "user_modules:hospitals", "-p", "natural", "-M", "4", "-R", "3", "--runs", str(tmp_path)]
    cli.app(words, standalone_mode=False)
    setting = Setting(**{**COMMON, "rounds": 3, "eval_every": 4})
    before = {path.name: path.read_bytes() for path in (tmp_path / setting.run_id).iterdir()}
    capsys.readouterr()
    cli.app([*words, "--measure", "hops", "--json"], standalone_mode=False)
    table = json.loads(capsys.readouterr().out)["hops"]
    assert [each["round"] for each in table] == [0, 1, 2]
    cli.app([*words, "--measure", "hops"], standalone_mode=False)
    shown = capsys.readouterr().out.partition("\nround 0")[2].partition("\nNext, ")[0]  # there --runs is a long path
    assert "a turn gains its own site" in shown
    assert "the last site ends" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert {path.name: path.read_bytes() for path in (tmp_path / setting.run_id).iterdir()} == before


def test_the_report_draws_it(tmp_path: Path) -> None:
    axes = {"algorithm": ["sequential", "parallel"]}
    shown = study.parse("chained", {"base": COMMON, "axes": axes, "report": {"hops": True, "over": ""}})
    for setting in shown.settings:
        run(setting, runs=tmp_path / "runs")
    page = report([shown], Store(tmp_path / "runs"), tmp_path / "out", hops=lambda s: hops.measure(s, [0, 4], CPU))
    assert "Along the chain" in page.read_text()
    assert (tmp_path / "out" / "chained-hops.csv").read_text().count("\n") == 1 + 2 * 2


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(BadInput, match="at: 5; rounds from 0 to 4 are right"):
        hops.measure(Setting(**COMMON), [5], CPU)
    with pytest.raises(BadInput, match="no model is handed on"):
        hops.measure(Setting(**COMMON, algorithm="user_modules:alone"), [0], CPU)
    with pytest.raises(BadInput, match="does not say whose"):
        hops.measure(Setting(dataset="quadratic_random", rounds=2), [0], CPU)
    done = subprocess.run(
        [sys.executable, "-m", "baton", "run", "--measure", "x"], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == "baton: measure: 'x'; 'drift', 'hops' or 'personal' is right"
