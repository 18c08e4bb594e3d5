"""Distance correlation by its definition, and what a server could learn at each cut."""

import json
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from baton import cli, datasets
from baton.api import run
from baton.errors import BadInput
from baton.measure.leak import distance_correlation, leaks
from baton.setting import Setting
from baton.simulate.program import net_of
from contracts.examples import CPU


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_definition(x: Tensor, y: Tensor) -> float:
    """Székely, Rizzo and Bakirov, definition 2: sums over all pairs."""
    n = len(x)

    def centred(z: Tensor) -> list[list[float]]:
        d = [[float((z[i] - z[j]).norm()) for j in range(n)] for i in range(n)]
        row = [sum(line) / n for line in d]
        mean = sum(row) / n
        return [[d[i][j] - row[i] - row[j] + mean for j in range(n)] for i in range(n)]

    def covariance(a: list[list[float]], b: list[list[float]]) -> float:
        return sum(a[i][j] * b[i][j] for i in range(n) for j in range(n)) / n**2

    a, b = centred(x), centred(y)
    return float((covariance(a, b) / (covariance(a, a) * covariance(b, b)) ** 0.5) ** 0.5)


def test_distance_correlation_by_its_definition() -> None:
    x = draw(13, 3)
    for y in (x[:, :1] ** 2 + 0.3 * draw(13, 1, seed=1), draw(13, 2, seed=2)):
        assert distance_correlation(x, y) == pytest.approx(by_definition(x, y), rel=1e-10)


def test_distance_correlation_of_what_is_known() -> None:
    x = draw(300, 4)
    turned = x @ torch.linalg.qr(draw(4, 4, seed=1)).Q
    assert distance_correlation(x, 3 * turned - 2) == pytest.approx(1)
    assert distance_correlation(x[:, :1], draw(300, 1, seed=5)) < 0.15
    assert distance_correlation(x[:, :1], x[:, :1].abs()) > 0.4  # no straight line would find it
    assert distance_correlation(x, torch.ones(300, 2)) == 0
    assert distance_correlation(x.view(300, 2, 2), x) == pytest.approx(1)


def test_noise_hides_and_chance_is_what_nothing_shows() -> None:
    setting = Setting(model="mlp:dropout=0")
    data = datasets.load("digits", 10)
    net = net_of(setting, data, CPU)
    x = {name: leaf[0] for name, leaf in net.init([1]).items()}
    found = {noise: leaks(net, data, x, 200, noise, 1) for noise in (0.0, 1.0, 100.0)}
    assert [leak.cut.name for leak in found[0.0]] == ["1", "2", "3"]
    for quiet, some, much in zip(*found.values(), strict=True):
        assert 0.5 < quiet.correlation <= 1
        assert quiet.correlation > some.correlation > much.correlation
        assert much.correlation == pytest.approx(much.chance, abs=0.1)
    assert found[0.0][0].correlation == found[0.0][1].correlation  # no dropout: layer 2 changes nothing
    assert leaks(net, data, x, 200, 1.0, 1) == found[1.0]


def test_bad_input_is_one_line() -> None:
    data = datasets.load("digits", 10)
    net = net_of(Setting(), data, CPU)
    with pytest.raises(BadInput, match="leak: model 'logistic' cannot be cut"):
        leaks(net, data, {}, 100, 0.0, 1)
    with pytest.raises(BadInput, match="samples: 2; at least 3"):
        leaks(net, data, {}, 2, 0.0, 1)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    setting = Setting(model="mlp", rounds=4, algorithm="ssl:cut=3,smash_noise=0.5")
    run(setting, tmp_path, quiet=True)

    def baton(*words: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["baton", "leak", setting.run_id[:8], "--runs", str(tmp_path), *words])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == code
        shown = capsys.readouterr()
        return shown.out + shown.err

    found = json.loads(baton("--samples", "100", "--json"))
    assert (found["cut"], found["samples"], found["smash_noise"]) == ("3", 100, 0.5)
    quiet = json.loads(baton("--samples", "100", "--smash-noise", "0", "--json"))
    for hidden, clear in zip(found["cuts"], quiet["cuts"], strict=True):
        assert hidden["trained"] < clear["trained"]
    assert "3*" in baton()
    assert baton("--smash-noise", "-1", code=2).count("\n") == 1
