"""The assumptions' constants: exact on quadratics, against numpy's linear algebra and enumeration elsewhere."""

import json
import sys
from itertools import combinations, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from baton import cli, datasets, theory
from baton.constants import envelope, measure, noise, spectrum, symbols
from baton.constants.found import mean
from baton.constants.objective import Objective
from baton.constants.regression import Regression
from baton.constants.softmax import bounds
from baton.constants.view import View
from baton.datasets.quadratic import split
from baton.errors import BadInput
from baton.setting import Setting
from contracts.examples import CPU

FAMILY = [
    {"clients": 2, "dim": 1, "L": 3.0, "mu": 1.0, "delta": 1.0, "zeta": 2.0, "sigma": 0.0},
    {"clients": 5, "dim": 4, "L": 4.0, "mu": 2.0, "delta": 0.0, "zeta": 3.0, "sigma": 1.5},
    {"clients": 7, "dim": 6, "L": 10.0, "mu": 0.1, "delta": 4.95, "zeta": 0.0, "sigma": 2.0},
    {"clients": 10, "dim": 20, "L": 100.0, "mu": 1e-3, "delta": 20.1, "zeta": 5.0, "sigma": 0.5},
]


def spec(wanted: dict[str, float]) -> str:
    return "quadratic_random:" + ",".join(f"{k}={v}" for k, v in wanted.items() if k != "clients")


# Eigenvalues by products


def made(eigen: list[float], seed: int) -> torch.Tensor:
    """A symmetric matrix with these eigenvalues."""
    basis = torch.linalg.qr(torch.from_numpy(np.random.default_rng(seed).normal(size=(len(eigen),) * 2))).Q
    return basis @ torch.diag(torch.tensor(eigen, dtype=torch.float64)) @ basis.T


@settings(max_examples=60)
@given(
    eigen=st.lists(st.one_of(st.floats(-100, 100), st.sampled_from([0.0, 1.0, -1.0])), min_size=1, max_size=12),
    seed=st.integers(0, 1000),
)
def test_both_ends_of_small_matrices_are_exact(eigen: list[float], seed: int) -> None:
    """Also where eigenvalues repeat, vanish, or come in pairs of +a and -a."""
    matrix = made(eigen, seed)
    found = spectrum.ends(lambda v: v @ matrix, 1, len(eigen))
    scale = 1e-9 * max(1.0, *map(abs, eigen))
    assert abs(float(found.low) - min(eigen)) <= scale
    assert abs(float(found.high) - max(eigen)) <= scale
    value, error = found.norm()
    assert abs(float(value) - max(map(abs, eigen))) <= scale
    assert float(error) <= scale


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), decay=st.floats(0.5, 0.97), sign=st.sampled_from([1, -1]))
def test_begun_again_from_the_best_vectors_it_still_gets_there(seed: int, decay: float, sign: int) -> None:
    eigen = [(sign * (-1) ** i) * decay**i for i in range(60)]
    eigen[1] = -eigen[0]  # power iteration alone would swing between the two
    matrix = made(eigen, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spectrum, "WIDEST", 10)
        value, error = spectrum.ends(lambda v: v @ matrix, 1, 60, 1e-6).norm()
    assert float(value) <= 1 + 1e-12  # never past the end
    assert float(value + error) >= 1 - 1e-12  # and within its residual of it
    assert float(error) <= 1e-6


def test_many_operators_side_by_side_are_each_its_own() -> None:
    matrices = torch.stack([made(list(np.linspace(-i, 2 * i + 1, 9)), i) for i in range(5)])
    value, _ = spectrum.ends(lambda v: v @ matrices, 5, 9).norm()
    np.testing.assert_allclose(value, [1, 3, 5, 7, 9], rtol=1e-12)


# Quadratics


@pytest.mark.parametrize("zeta", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("delta", ["0", "1/3", "1"])
def test_the_papers_nine_groups(zeta: float, delta: str) -> None:
    setting = Setting(dataset=f"quadratic:zeta={zeta},delta={delta}")
    found = {name: c.value for name, c in measure(setting, CPU).constants.items()}
    d = {"0": 0.0, "1/3": 1 / 3, "1": 1.0}[delta]
    wanted = {
        "L": 1 + d,
        "mu": 1 - d,
        "sigma2": 0,
        "sigma2_mean": 0,
        "zeta_star2": zeta**2,
        "delta": d,
        "D": 10,
        "A": 50,
    }
    wanted |= {"beta2": d**2 + d * zeta / 10, "zeta2": zeta**2 + 10 * d * zeta}  # (d u + zeta)^2 <= beta2 u^2 + zeta2
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("wanted", FAMILY)
def test_the_random_family_has_the_constants_it_was_given(wanted: dict[str, float]) -> None:
    measured = measure(Setting(dataset=spec(wanted), clients=wanted["clients"]), CPU)
    found = {name: c.value for name, c in measured.constants.items()}
    assert {c.kind for c in measured.constants.values()} == {"exact"}
    for name in ("L", "mu", "delta"):
        assert found[name] == pytest.approx(wanted[name], abs=1e-11 * wanted["L"])
    assert found["sigma2"] == found["sigma2_mean"] == pytest.approx(wanted["sigma"] ** 2)
    assert found["zeta_star2"] == pytest.approx(wanted["zeta"] ** 2, abs=1e-12 * wanted["L"])
    data = datasets.load(spec(wanted), wanted["clients"])
    away = 10 - data.optimum.x.numpy()
    assert found["D"] == pytest.approx(np.linalg.norm(away))
    assert found["A"] == pytest.approx(away @ data.optimum.hessian.numpy() @ away / 2)


def test_weight_decay_is_part_of_every_quadratic() -> None:
    wanted, decay = FAMILY[3], 0.5
    found = measure(Setting(dataset=spec(wanted), clients=10, weight_decay=decay), CPU).constants
    hessian, c, _ = (part.numpy() for part in split(datasets.load(spec(wanted), 10).x))
    hessian = hessian + decay * np.eye(20)
    best = np.linalg.solve(hessian.mean(0), -c.mean(0))
    assert found["L"].value == pytest.approx(wanted["L"] + decay)
    assert found["mu"].value == pytest.approx(wanted["mu"] + decay)
    assert found["delta"].value == pytest.approx(wanted["delta"])
    assert found["zeta_star2"].value == pytest.approx(((hessian @ best + c) ** 2).sum(1).mean())
    assert found["D"].value == pytest.approx(np.linalg.norm(10 - best))


def test_a_batch_drawn_with_replacement_averages_the_noise() -> None:
    wanted = FAMILY[1]
    common = {"dataset": spec(wanted), "clients": 5, "batch_size": 4}
    assert measure(Setting(**common), CPU).constants["sigma2"].value == pytest.approx(1.5**2)  # one sample a client
    found = measure(Setting(**common, sampling="replacement"), CPU)
    assert found.constants["sigma2"].value == pytest.approx(1.5**2 / 4)


@pytest.mark.parametrize("wanted", FAMILY)
def test_beta_and_zeta_of_quadratics_hold_everywhere_and_are_least(wanted: dict[str, float]) -> None:
    setting = Setting(dataset=spec(wanted), clients=wanted["clients"])
    found = measure(setting, CPU).constants
    beta2, zeta2 = found["beta2"].value, found["zeta2"].value
    hessian, c, _ = (part.numpy() for part in split(datasets.load(setting.dataset, setting.clients).x))
    mean = hessian.mean(0)
    best = np.linalg.solve(mean, -c.mean(0))
    other, there = hessian - mean, hessian @ best + c
    spread, tilt = (other @ other).mean(0), (other @ there[:, :, None])[:, :, 0].mean(0)
    star, start = (there**2).sum(1).mean(), np.sum((mean @ (10 - best)) ** 2)
    rng = np.random.default_rng(0)
    for scale in (1e-3, 0.1, 1, 10, 1e4):
        for x in best + scale * rng.normal(size=(20, len(best))):
            diversity = ((hessian @ x + c - mean @ x - c.mean(0)) ** 2).sum(1).mean()
            allowed = beta2 * np.sum((mean @ x + c.mean(0)) ** 2) + zeta2
            assert diversity <= allowed * (1 + 1e-9) + 1e-9
    for other_beta2 in beta2 * np.array([0.9, 0.999, 1.001, 1.1, 2, 10]):  # zeta^2 = max over u, where it is finite
        form = other_beta2 * mean @ mean - spread
        if np.linalg.eigvalsh(form)[0] > 1e-9:
            least = star + tilt @ np.linalg.solve(form, tilt)
            assert beta2 * start + zeta2 <= (other_beta2 * start + least) * (1 + 1e-9)


@pytest.mark.parametrize("wanted", FAMILY[1:])
def test_products_find_what_linear_algebra_finds(wanted: dict[str, float]) -> None:
    """The way taken for networks, on problems whose answers are known."""
    setting = Setting(dataset=spec(wanted), clients=wanted["clients"], weight_decay=0.25)
    view = View(Objective(setting, CPU), list(range(setting.clients)), 1e-9)
    x = view.objective.start()
    assert float(view.hessians(x)[0].max()) == pytest.approx(wanted["L"] + 0.25, rel=1e-9)
    assert float(view.differences(x)[0].max()) == pytest.approx(wanted["delta"], rel=1e-9, abs=1e-9)
    exact = measure(setting, CPU).constants
    data = datasets.load(setting.dataset, setting.clients)
    hessian, c, _ = split(data.x)
    best = torch.linalg.solve(hessian.mean(0) + 0.25 * torch.eye(len(x)), -c.mean(0))
    assert float(view.gradients(best).square().sum(1).mean()) == pytest.approx(exact["zeta_star2"].value)
    assert view.loss(x) - view.loss(best) == pytest.approx(exact["A"].value)


# Logistic regression, against numpy


def few(labels: np.ndarray, clients: int) -> np.ndarray:
    """5 or 6 samples a client, the rest nobody's."""
    owner = np.full(len(labels), -1)
    owner[: 5 * clients + 3] = np.arange(5 * clients + 3) % clients
    return owner


def first_only(labels: np.ndarray, clients: int) -> np.ndarray:  # noqa: ARG001
    return np.zeros(len(labels), dtype=np.int64)


def uneven(labels: np.ndarray, clients: int) -> np.ndarray:
    """360 samples by label, 60 of them at the first client whatever they are; the rest nobody's."""
    owner = np.where(np.arange(len(labels)) < 360, labels % clients, -1)
    owner[:60] = 0
    return owner


def tiny(**fields: object) -> Setting:
    """Digits at 5 uneven clients; weight decay makes it strongly convex."""
    common = {"partition": "test_constants:uneven", "clients": 5, "weight_decay": 0.01, "rounds": 10}
    return Setting(**{**common, **fields})


class Numpy:
    """The same problem written down once more: weights [10, 64] and bias [10] in one vector."""

    def __init__(self, setting: Setting) -> None:
        from baton.clients import owners

        data = datasets.load(setting.dataset, setting.clients)
        owner = owners(setting.dataset, setting.partition, setting.clients)
        x, y = data.x.double().numpy(), data.y.numpy()
        z = np.hstack([x, np.ones((len(x), 1))])
        self.clients = [(z[owner == m], np.eye(10)[y[owner == m]]) for m in range(setting.clients)]
        self.decay = setting.weight_decay

    @staticmethod
    def matrix(x: np.ndarray) -> np.ndarray:
        return np.hstack([x[:640].reshape(10, 64), x[640:, None]])

    @staticmethod
    def vector(matrix: np.ndarray) -> np.ndarray:
        return np.concatenate([matrix[:, :64].ravel(), matrix[:, 64]])

    def probabilities(self, m: int, x: np.ndarray) -> np.ndarray:
        score = self.clients[m][0] @ self.matrix(x).T
        p = np.exp(score - score.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True)

    def each(self, m: int, x: np.ndarray) -> np.ndarray:
        """Every sample's gradient, with its share of the weight decay."""
        z, y = self.clients[m]
        rows = (self.probabilities(m, x) - y)[:, :, None] * z[:, None, :]
        return np.stack([self.vector(row) for row in rows]) + self.decay * x

    def gradient(self, m: int, x: np.ndarray) -> np.ndarray:
        return self.each(m, x).mean(0)

    def hessian(self, m: int, x: np.ndarray) -> np.ndarray:
        z, _ = self.clients[m]
        p = self.probabilities(m, x)
        inner = p[:, :, None] * np.eye(10) - p[:, :, None] * p[:, None, :]
        whole = np.einsum("nij,na,nb->iajb", inner, z, z, optimize=True) / len(z)  # over [10, 65] twice
        place = self.vector(np.arange(650).reshape(10, 65)).astype(int)
        return whole.reshape(650, 650)[np.ix_(place, place)] + self.decay * np.eye(650)

    def loss(self, x: np.ndarray) -> float:
        found = [-np.log((self.probabilities(m, x) * y).sum(1)).mean() for m, (_, y) in enumerate(self.clients)]
        return float(np.mean(found) + self.decay / 2 * x @ x)


@pytest.fixture(scope="module")
def digits() -> tuple[View, Numpy, list[torch.Tensor]]:
    """And three points: the start, a point on the way, one far out."""
    objective = Objective(tiny(), CPU)
    start = objective.start()
    far = torch.from_numpy(np.random.default_rng(0).normal(size=650))
    return View(objective, list(range(5)), 1e-8), Numpy(tiny()), [start, 0.1 * far, far]


def in_order(view: View) -> list[int]:
    """The clients as the groups have them."""
    return [m for some, _ in view.groups for m in some]


def test_largest_eigenvalues_are_numpys(digits: tuple[View, Numpy, list[torch.Tensor]]) -> None:
    view, other, points = digits
    limits = bounds(view.objective)
    for x in points:
        hessians = [other.hessian(m, x.numpy()) for m in in_order(view)]
        top = [np.linalg.eigvalsh(h)[-1] for h in hessians]
        value, error = view.hessians(x)
        np.testing.assert_allclose(value, top, rtol=1e-7)
        assert float((error / value).max()) <= 1e-8
        mean = np.mean(hessians, axis=0)
        apart = [np.abs(np.linalg.eigvalsh(h - mean)).max() for h in hessians]
        np.testing.assert_allclose(view.differences(x)[0], apart, rtol=1e-7)
        assert max(top) <= limits["L"].value
        assert max(apart) <= limits["delta"].value
        assert np.linalg.eigvalsh(hessians[0])[0] == pytest.approx(0.01, abs=1e-12)  # mu is the weight decay
    z, _ = max(other.clients, key=lambda c: np.linalg.eigvalsh(c[0].T @ c[0] / len(c[0]))[-1])
    assert limits["L"].value == pytest.approx(np.linalg.eigvalsh(z.T @ z / len(z))[-1] / 2 + 0.01, rel=1e-4)
    assert limits["mu"].value == 0.01


def test_gradients_and_losses_are_numpys(digits: tuple[View, Numpy, list[torch.Tensor]]) -> None:
    view, other, points = digits
    regression = Regression(view.objective, view.whole)
    limits = bounds(view.objective)
    for x in points:
        each = np.stack([other.gradient(m, x.numpy()) for m in in_order(view)])
        np.testing.assert_allclose(view.gradients(x), each, atol=1e-12)
        np.testing.assert_allclose(view.gradient(x), each.mean(0), atol=1e-12)
        np.testing.assert_allclose(regression.gradient(x), each.mean(0), atol=1e-12)
        assert view.loss(x) == pytest.approx(other.loss(x.numpy()), rel=1e-12)
        assert regression.value(x) == pytest.approx(other.loss(x.numpy()), rel=1e-12)
        point = view.point("here", x)
        assert point.diversity == pytest.approx(((each - each.mean(0)) ** 2).sum(1).mean())
        assert point.diversity <= limits["zeta2"].value
        v = points[2].flip(0)
        straight = view.objective.products(x, v.view(1, 1, -1), view.whole)[0, 0]
        torch.testing.assert_close(regression.product(x, v), straight, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("sampling", ["shuffle", "replacement"])
@pytest.mark.parametrize(("size", "steps"), [(1, 1), (2, 5), (3, 1), (3, 2), (4, 2), (7, 1)])
def test_sigma_is_the_variance_over_all_batches_there_are(sampling: str, size: int, steps: int) -> None:
    """Clients of 5 or 6 samples; a pass that ends in a short batch counts it where a step meets it."""
    setting = tiny(partition="test_constants:few", batch_size=size, local_steps=steps, sampling=sampling)
    if sampling == "replacement" and size > 4:
        return  # too many to enumerate
    objective = Objective(setting, CPU)
    x = objective.start()
    other = Numpy(setting)
    for some, group in objective.groups(range(5)):
        found = noise.of_samples(objective, x, some, group)
        for m, value in zip(some, found.tolist(), strict=True):
            each = other.each(m, x.numpy())
            n, mean = len(each), each.mean(0)
            assert n in (5, 6)
            if sampling == "replacement":
                batches = [[product(range(n), repeat=size)]]
            else:
                cuts = [range(i, min(i + size, n)) for i in range(0, n, size)][:steps]
                batches = [[combinations(range(n), len(cut))] for cut in cuts]  # the k-th batch is any such subset
            worst = max(np.mean([((each[list(b)].mean(0) - mean) ** 2).sum() for b in some]) for (some,) in batches)
            assert value == pytest.approx(worst, rel=1e-9, abs=1e-12)
    found = bounds(objective)["sigma2"].value
    assert found >= max(
        float(noise.of_samples(objective, at, s, g).max())
        for s, g in objective.groups(range(5))
        for at in (x, 100 * torch.ones_like(x).cumsum(0).sin())
    )


def test_at_the_optimum_against_newtons_method_in_numpy() -> None:
    setting, other = tiny(), Numpy(tiny())
    x = np.zeros(650)
    for _ in range(30):
        g = np.mean([other.gradient(m, x) for m in range(5)], axis=0)
        h = np.mean([other.hessian(m, x) for m in range(5)], axis=0)
        step = np.linalg.solve(h, -g)
        rate = 1.0
        while other.loss(x + rate * step) > other.loss(x) + 1e-4 * rate * g @ step and rate > 1e-6:
            rate /= 2
        x = x + rate * step
        if np.linalg.norm(step) < 1e-11:
            break
    found = measure(setting, CPU, ["zeta_star2", "D", "A"]).constants
    start = Objective(setting, CPU).start().numpy()
    wanted = {
        "zeta_star2": np.mean([(other.gradient(m, x) ** 2).sum() for m in range(5)]),
        "D": np.linalg.norm(start - x),
        "A": other.loss(start) - other.loss(x),
    }
    for name, value in wanted.items():
        constant = found[name]
        assert constant.kind == "estimate"
        assert constant.value == pytest.approx(value, rel=1e-9)
        assert constant.low * (1 - 1e-9) <= value <= constant.high * (1 + 1e-9)
        assert constant.high - constant.low <= 1e-6 * value


def test_data_that_can_be_separated_have_no_optimum_without_weight_decay() -> None:
    measured = measure(tiny(weight_decay=0.0), CPU, ["mu", "zeta_star2", "D", "A"])
    found = measured.constants
    assert found["mu"].value == 0
    assert found["zeta_star2"].value is None
    assert found["zeta_star2"].kind == "not defined"
    assert "weight_decay" in found["D"].note
    assert found["A"].kind == "bound"
    assert found["A"].value == pytest.approx(Numpy(tiny(weight_decay=0.0)).loss(Objective(tiny(), CPU).start().numpy()))
    assert symbols(measured)[0] == "convex"
    assert "zeta" not in symbols(measured)[1]


def test_all_of_it_together_and_what_each_value_is() -> None:
    measured = measure(tiny(), CPU, points=2, rounds=4)
    found = measured.constants
    assert [p.where for p in measured.points] == ["round 0", "round 4", "x*"]
    kinds = {name: c.kind for name, c in found.items()}
    assert {name for name, kind in kinds.items() if kind == "local estimate"} == {n for n in found if "_local" in n}
    assert {name for name, kind in kinds.items() if kind == "bound"} == {"L", "sigma2", "beta2", "zeta2", "delta"}
    for name in ("L", "sigma2", "delta"):
        assert found[name].low == found[f"{name}_local"].value < found[name].value == found[name].high
    assert found["sigma2_local_mean"].value < found["sigma2_local"].value
    beta2, zeta2 = found["beta2_local"].value, found["zeta2_local"].value
    assert all(p.diversity <= beta2 * p.gradient2 + zeta2 + 1e-9 for p in measured.points)
    assert measured.points[-1].diversity == pytest.approx(found["zeta_star2"].value)
    case, letters = symbols(measured)
    assert case == "strongly_convex"
    assert letters["zeta"] == pytest.approx(found["zeta_star2"].value ** 0.5)
    bound = theory.bound("sequential", case, **letters, M=5, S=5, K=5, R=100_000)
    assert 0 < bound.total < float("inf")


# Sampled clients


def test_a_mean_over_some_clients_and_its_error_are_right_on_average() -> None:
    """Over all subsets of four of seven: the mean is unbiased, and the squared error is the variance of that mean."""
    values = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0, -3.0, 0.5], dtype=torch.float64)
    found = [mean(values[list(some)], 7) for some in combinations(range(7), 4)]
    means, errors = np.array(found).T
    assert means.mean() == pytest.approx(float(values.mean()))
    assert (errors**2).mean() == pytest.approx(means.var())
    assert mean(values, 7) == (pytest.approx(float(values.mean())), None)
    assert mean(values[:1], 7)[1] == float("inf")


def test_some_clients_are_measured_and_that_is_said() -> None:
    measured = measure(tiny(), CPU, ["zeta_star2", "L", "zeta2"], clients=3, points=1)
    found, other = measured.constants, measure(tiny(seed=3), CPU, ["zeta_star2"], clients=3).constants
    every = measure(tiny(), CPU, ["zeta_star2", "L"], points=1).constants
    assert measured.clients == 3
    assert found["zeta_star2"].error > 0
    assert found["zeta2_local"].error > 0
    assert every["zeta_star2"].error is None
    assert len({found["zeta_star2"].value, other["zeta_star2"].value, every["zeta_star2"].value}) == 3
    assert "3 of 5 clients" in found["L_local"].note
    assert found["L_local"].value <= every["L_local"].value * (1 + 1e-9)
    assert found["L"].value == every["L"].value  # a bound is over all clients, sampled or not


# Networks


def test_a_networks_largest_eigenvalue_is_its_hessians() -> None:
    setting = tiny(model="mlp:hidden=3,dropout=0", clients=3, partition="iid")
    view = View(Objective(setting, CPU), [0, 1, 2], 1e-8)
    o = view.objective
    x = o.start()
    exact = []
    for m in in_order(view):
        group = o.together([m])
        eye = torch.eye(o.size, dtype=torch.float64)
        exact.append(o.products(x, eye.unsqueeze(0), group)[0])
        step = 1e-5 * torch.from_numpy(np.random.default_rng(m).normal(size=o.size))
        slope = (o.gradients(x + step, group) - o.gradients(x - step, group))[0] / 2
        torch.testing.assert_close(exact[-1] @ step, slope, rtol=1e-4, atol=1e-10)  # it is the gradient's derivative
        torch.testing.assert_close(exact[-1], exact[-1].T)
    top = [float(torch.linalg.eigvalsh(h).abs().max()) for h in exact]
    np.testing.assert_allclose(view.hessians(x)[0], top, rtol=1e-7)
    mean = torch.stack(exact).mean(0)
    apart = [float(torch.linalg.eigvalsh(h - mean).abs().max()) for h in exact]
    np.testing.assert_allclose(view.differences(x)[0], apart, rtol=1e-7)


@pytest.mark.parametrize("room", [1 << 30, 300_000])
def test_variance_from_drawn_minibatches_is_that_of_all_batches(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All draws at once, and a few at a time."""
    monkeypatch.setattr(noise, "DRAWS", 2000)
    monkeypatch.setattr(noise, "DRAWN_BYTES", room)
    view = View(Objective(tiny(model="mlp:hidden=3,dropout=0", local_steps=1), CPU), list(range(5)), 1e-3)
    x = view.objective.start()
    exact = dict(zip(in_order(view), view.variances(x)[0].tolist(), strict=True))
    for m in (0, 2, 4) if room > 1 << 20 else [3]:
        value, error = noise.of_draws(view.objective, x, m, view._step)
        assert abs(value - exact[m]) < 4 * error < 0.2 * value


def test_a_networks_values_are_local_estimates() -> None:
    measured = measure(tiny(model="mlp:hidden=3", clients=3, partition="iid"), CPU, points=2, rounds=3)
    assert measured.problem == "network"
    assert set(measured.constants) == {
        "L_local", "sigma2_local", "sigma2_local_mean", "beta2_local", "zeta2_local", "delta_local", "A"
    }  # fmt: skip
    assert {c.kind for name, c in measured.constants.items() if name != "A"} == {"local estimate"}
    assert measured.constants["A"].kind == "bound"
    assert measured.constants["sigma2_local_mean"].error > 0  # dropout: drawn minibatches
    case, letters = symbols(measured)
    assert (case, set(letters)) == ("nonconvex", {"L", "sigma", "beta", "zeta", "A"})


# The line above the points


@settings(max_examples=80)
@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=8))
def test_the_line_lies_above_and_none_is_lower_on_average(points: list[tuple[float, float]]) -> None:
    a, h = zip(*points, strict=True)
    beta2, zeta2 = envelope.line(a, h)
    assert beta2 >= 0
    assert zeta2 >= 0
    assert all(beta2 * x + zeta2 >= y - 1e-9 * (1 + y) for x, y in points)
    mean = sum(a) / len(a)
    best = linprog([mean, 1.0], A_ub=[[-x, -1.0] for x in a], b_ub=[-y for y in h])
    assert beta2 * mean + zeta2 <= best.fun + 1e-6 * (1 + abs(best.fun))


# Bad input, and the command


@pytest.mark.parametrize(
    ("fields", "options", "line"),
    [
        ({"model": "mlp"}, {"only": ["mu"]}, "only: 'mu' is for convex problems, and model 'mlp' is none"),
        ({"model": "mlp"}, {"only": ["L", "zeta_star2"]}, "only: 'zeta_star2' is for convex problems"),
        ({}, {"only": ["sigm2"]}, "only: no constant 'sigm2'; did you mean 'sigma2'?"),
        ({}, {"clients": 0}, "clients_sampled: 0; at least 1 is right"),
        ({}, {"points": 0}, "points: 0; at least 1 is right"),
        ({"partition": "test_constants:first_only"}, {}, "leaves 4 clients without samples"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(fields: dict, options: dict, line: str) -> None:
    with pytest.raises(BadInput) as refused:
        measure(tiny(**fields), CPU, **options)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["baton", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_the_command_prints_a_table_and_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    words = [
        "constants",
        "-M",
        "5",
        "-p",
        "test_constants:uneven",
        "--weight-decay",
        "0.01",
        "--points",
        "1",
        "--trajectory",
        "1",
    ]
    assert run(monkeypatch, *words) == 0
    shown = capsys.readouterr().out
    assert "F = mean of F_m over clients" in shown
    assert "local estimate" in shown
    assert run(monkeypatch, *words, "--json", "--only", "zeta_star2,mu") == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["constants"]) == ["mu", "zeta_star2"]
    assert set(found["constants"]["mu"]) == {"value", "kind", "low", "high", "error", "note"}


def test_a_studys_problems_once_each(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    assert run(monkeypatch, "constants", "--study", "quadratics", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [f["constants"]["zeta_star2"]["value"] for f in found] == pytest.approx([1, 100, 10000] * 3)
    assert run(monkeypatch, "constants", "--study", "quadratics", "--group", "δ = 1, ζ* = 10") == 0
    assert "quadratic:zeta=10,delta=1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--group", "x"], "group: 'x' of which study?"),
        (["--study", "quadratics", "--group", "x"], "group: no 'x' in quadratics"),
        (["--study", "quadratics", "--lr", "1"], "--study goes without lr"),
        (["--only", "mu", "-m", "mlp"], "is for convex problems"),
        (["--clients-sampled", "0"], "clients_sampled: 0"),
    ],
)
def test_bad_words_end_in_one_line(
    words: list[str], line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert run(monkeypatch, "constants", *words) == 2
    shown = capsys.readouterr()
    assert line in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
