"""Quadratics in float64 against closed forms, and the constants of the random family against linear algebra."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from baton import datasets
from baton.datasets.quadratic import dimension, split
from baton.errors import BadInput
from baton.lanes import Params
from baton.legs.base import Step
from baton.setting import Setting
from baton.simulate.engine import Program
from contracts.examples import CPU, series, stages
from steps import step_of

GROUPS = [f"quadratic:zeta={zeta},delta={delta}" for delta in ("0", "1/3", "1") for zeta in (1, 10, 100)]
LRS = (0.001, 0.01, 0.1, 0.3, 0.6, 1.0)
WIDE = np.longdouble  # the closed forms' own rounding must not count


def affine(a: float, c: float, lr: float, steps: int) -> tuple[WIDE, WIDE]:
    """K steps on a x^2 / 2 + c x are x -> q x + t."""
    step = 1 - WIDE(lr) * WIDE(a)
    q = step**steps
    return q, -WIDE(lr) * WIDE(c) * (steps if step == 1 else (1 - q) / (1 - step))


def maps(setting: Setting) -> list[tuple[WIDE, WIDE]]:
    """The two clients' legs; client 0 has (1 + delta) / 2 x^2 + zeta x."""
    options = dict(item.split("=") for item in setting.dataset.partition(":")[2].split(",") if item)
    delta = {"0": 0.0, "1/3": 1 / 3, "1": 1.0}[options.get("delta", "0")]
    zeta = float(options.get("zeta", 1))
    pair = ((1 + delta, zeta), (1 - delta, -zeta))
    return [affine(a, c, setting.lr, setting.local_steps) for a, c in pair]


def lanes(algorithm: str, steps: int) -> list[Setting]:
    common = {"algorithm": algorithm, "local_steps": steps, "rounds": 500, "eval_every": 500}
    return [Setting(dataset=group, lr=lr, **common) for group in GROUPS for lr in LRS]


def test_the_nine_groups_are_the_papers() -> None:
    data = datasets.load("quadratic:zeta=10,delta=1/3", 2)
    hessian, c, sigma = split(data.x)
    assert hessian.flatten().tolist() == [1 + 1 / 3, 1 - 1 / 3]  # 2/3 x^2 and 1/3 x^2
    assert c.flatten().tolist() == [10.0, -10.0]
    assert sigma.flatten().tolist() == [0.0, 0.0]
    assert data.optimum is not None
    assert data.optimum.x.tolist() == [0.0]
    assert data.optimum.hessian.tolist() == [[1.0]]


def legs(program: Program, x: Params, order: torch.Tensor, round: int = 0) -> torch.Tensor:
    """A leg from x at each client of order [L, S]: [L, S, d]."""
    drawn = program.ahead(round, order)
    return torch.stack([program.legs.train(x, step_of(program.lanes, leg), leg)["x"] for leg in drawn], 1)


@settings(max_examples=40)
@given(
    zeta=st.floats(0, 1000),
    delta=st.floats(0, 1),
    lr=st.floats(1e-4, 1.0),
    steps=st.integers(1, 20),
    client=st.integers(0, 1),
    x=st.floats(-100, 100),
)
def test_a_leg_is_an_affine_map(zeta: float, delta: float, lr: float, steps: int, client: int, x: float) -> None:
    setting = Setting(dataset=f"quadratic:zeta={zeta!r},delta={delta!r}", lr=lr, local_steps=steps)
    program = Program([setting], CPU)
    got = legs(program, {"x": torch.tensor([[x]], dtype=torch.float64)}, torch.tensor([[client]]))
    sign = 1 - 2 * client
    q, t = affine(1 + sign * delta, sign * zeta, lr, steps)
    scale = max(1.0, abs(x), zeta * lr * steps)
    assert abs(float(got) - float(q * WIDE(x) + t)) <= 1e-13 * scale


@settings(max_examples=40)
@given(
    steps=st.integers(1, 20),
    lr=st.floats(1e-4, 0.3),
    decay=st.floats(0, 0.5),
    momentum=st.none() | st.floats(0, 0.95),
    pull=st.none() | st.floats(0, 2),
    anchor=st.none() | st.floats(-100, 100),
    shift=st.none() | st.floats(-100, 100),
    x=st.floats(-100, 100),
)
def test_with_any_terms_a_leg_is_its_recursion(
    steps: int,
    lr: float,
    decay: float,
    momentum: float | None,
    pull: float | None,
    anchor: float | None,
    shift: float | None,
    x: float,
) -> None:
    program = Program([Setting(dataset="quadratic:zeta=10,delta=1/3", local_steps=steps)], CPU)

    def one(value: float | None) -> torch.Tensor | None:
        return None if value is None else torch.tensor([value], dtype=torch.float64)

    def model(value: float | None) -> Params | None:
        return None if value is None else {"x": torch.tensor([[value]], dtype=torch.float64)}

    step = Step(one(lr), one(0.0), one(decay), one(momentum), one(pull), model(anchor), model(shift))
    got = program.legs.train(model(x), step, program.ahead(0, torch.tensor([[0]]))[0])["x"]
    at, v, home, most = WIDE(x), WIDE(0), WIDE(x if anchor is None else anchor), 100.0
    for _ in range(steps):
        d = (1 + WIDE(1) / 3) * at + 10 + decay * at + (pull or 0) * (at - home) + (shift or 0)
        v = (momentum or 0) * v + d
        at = at - lr * v
        most = max(most, abs(at))
    assert abs(float(got) - float(at)) <= 1e-12 * most


@pytest.mark.parametrize("steps", [2, 10])
def test_parallel_is_its_closed_form_over_500_rounds(steps: int) -> None:
    runs = lanes("parallel", steps)
    _, seen = stages(runs)
    for lane, setting in enumerate(runs):
        (q1, t1), (q2, t2) = maps(setting)
        q, t = (q1 + q2) / 2, (t1 + t2) / 2
        exact = np.array([q**r * 10 + t * (r if q == 1 else (1 - q**r) / (1 - q)) for r in range(501)])
        got = np.array([float(at.state.model["x"][lane, 0]) for at in seen])
        scale = np.abs(exact).max()
        assert np.abs(got - exact).max() <= 1e-12 * scale, setting
        distance = np.array(list(series(seen[-1], "distance", lane).values()))
        assert np.abs(distance - np.abs(exact)).max() <= 1e-12 * scale, setting


@pytest.mark.parametrize("steps", [2, 10])
def test_sequential_is_its_closed_form_over_500_rounds_given_the_order(steps: int) -> None:
    runs = [Setting(**{**s.model_dump(), "seed": i}) for i, s in enumerate(lanes("sequential", steps))]
    program, seen = stages(runs)
    orders = np.stack([program.order(round).numpy() for round in range(500)])  # [R, L, 2]
    assert 0.4 < orders[:, :, 0].mean() < 0.6
    for lane, setting in enumerate(runs):
        clients = maps(setting)
        exact = [WIDE(10)]
        for order in orders[:, lane]:
            x = exact[-1]
            for client in order:
                q, t = clients[client]
                x = q * x + t
            exact.append(x)
        got = np.array([float(at.state.model["x"][lane, 0]) for at in seen])
        scale = max(np.abs(exact).max(), max(abs(t) for _, t in clients))
        assert np.abs(got - np.array(exact)).max() <= 1e-12 * scale, setting


@pytest.mark.parametrize("algorithm", ["sequential", "parallel", "parallel:server_lr=0.5"])
def test_vectors_follow_the_matrix_closed_form(algorithm: str) -> None:
    setting = Setting(
        dataset="quadratic_random:dim=4",
        clients=5,
        participants=3,
        algorithm=algorithm,
        local_steps=7,
        rounds=30,
        lr=0.05,
    )
    program, seen = stages([setting])
    hessian, c, _ = (part.numpy() for part in split(datasets.load(setting.dataset, 5).x))
    step = np.eye(4) - 0.05 * hessian
    q = np.linalg.matrix_power(step, 7)
    t = -np.linalg.solve(hessian, ((np.eye(4) - q) @ c[:, :, None]))[:, :, 0]  # x -> q x + t
    x = np.full(4, 10.0)
    for round in range(30):
        order = program.order(round)[0].tolist()
        if algorithm == "sequential":
            for m in order:
                x = q[m] @ x + t[m]
        else:
            factor = 0.5 if "server_lr" in algorithm else 1.0
            x = x + factor * (np.mean([q[m] @ x + t[m] for m in order], axis=0) - x)
        np.testing.assert_allclose(seen[round + 1].state.model["x"][0], x, rtol=1e-12, atol=1e-12)


# The random family


@pytest.mark.parametrize("clients", [2, 3, 4, 7, 10, 101])
@pytest.mark.parametrize(
    ("dim", "L", "mu", "delta"),
    [
        (1, 3.0, 1.0, 1.0),
        (1, 1.0, 1.0, 0.0),
        (2, 10.0, 0.1, 4.95),
        (5, 4.0, 2.0, 0.0),
        (5, 4.0, 2.0, 0.4),
        (10, 100.0, 1e-3, 20.1),
    ],
)
def test_the_family_attains_its_constants(clients: int, dim: int, L: float, mu: float, delta: float) -> None:
    for seed in (0, 7):
        spec = f"quadratic_random:dim={dim},L={L},mu={mu},delta={delta},zeta=3,seed={seed}"
        data = datasets.load(spec, clients)
        hessian, c, _ = split(data.x)
        assert data.x.dtype == torch.float64
        assert data.x.shape == (clients, dim * dim + dim + 1)
        torch.testing.assert_close(hessian, hessian.mT, rtol=1e-12, atol=1e-12)
        eigen = torch.linalg.eigvalsh(hessian)
        assert float(eigen.max()) == pytest.approx(L, rel=1e-12)
        assert float(eigen.min()) == pytest.approx(mu, abs=1e-12 * L)
        away = torch.linalg.matrix_norm(hessian - hessian.mean(0), 2)
        assert float(away.max()) == pytest.approx(delta, abs=1e-12 * L)
        assert data.optimum is not None
        slope = torch.einsum("mij,j->mi", hessian, data.optimum.x) + c  # gradients at the optimum
        assert float(slope.square().sum(1).mean()) == pytest.approx(9.0, rel=1e-10)
        assert float(slope.sum(0).abs().max()) < 1e-11 * clients * L
        torch.testing.assert_close(data.optimum.hessian, hessian.mean(0), rtol=1e-14, atol=1e-14)
        assert float(data.optimum.x.norm()) == pytest.approx(1.0, rel=1e-10)


def test_one_client_has_neither_zeta_nor_delta() -> None:
    data = datasets.load("quadratic_random:dim=3,zeta=0,delta=0", 1)
    hessian, c, _ = split(data.x)
    eigen = torch.linalg.eigvalsh(hessian[0])
    assert (float(eigen[0]), float(eigen[-1])) == (pytest.approx(1.0), pytest.approx(10.0))
    assert data.optimum is not None
    assert float((hessian[0] @ data.optimum.x + c[0]).norm()) < 1e-12


@given(d=st.integers(1, 2000))
def test_a_rows_width_gives_its_dimension(d: int) -> None:
    assert dimension(d * d + d + 1) == d


BAD = [
    ("quadratic_random:dim=0", 4, "dim=0"),
    ("quadratic_random:mu=0", 4, "mu=0"),
    ("quadratic_random:mu=-1", 4, "mu=-1"),
    ("quadratic_random:L=0.5", 4, "L=0.5"),
    ("quadratic_random:L=inf", 4, "L=inf"),
    ("quadratic_random:L=nan", 4, "L=nan"),
    ("quadratic_random:zeta=-1", 4, "zeta=-1"),
    ("quadratic_random:zeta=inf", 4, "zeta=inf"),
    ("quadratic_random:delta=-1", 4, "delta=-1"),
    ("quadratic_random:delta=4.6", 4, "delta=4.6"),
    ("quadratic_random:sigma=-2", 4, "sigma=-2"),
    ("quadratic_random:sigma=nan", 4, "sigma=nan"),
    ("quadratic_random:delta=0", 1, "zeta=1"),
    ("quadratic_random:zeta=0", 1, "delta=1"),
    ("quadratic_random:dim=1", 4, "dim=1"),
    ("quadratic:delta=1.5", 2, "delta=1.5"),
    ("quadratic:delta=-1/3", 2, "delta=-0.3"),
    ("quadratic:zeta=-1", 2, "zeta=-1"),
    ("quadratic:zeta=inf", 2, "zeta=inf"),
    ("quadratic:zeta=nan", 2, "zeta=nan"),
    ("quadratic", 3, "clients: 3"),
]


@pytest.mark.parametrize(("spec", "clients", "named"), BAD)
def test_constants_that_cannot_be_are_refused_by_their_symbol(spec: str, clients: int, named: str) -> None:
    with pytest.raises(BadInput) as refused:
        Program([Setting(dataset=spec, clients=clients)], CPU)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


# Gradient noise


def test_gradient_noise_has_variance_sigma_squared_in_every_direction() -> None:
    """One step from x, by 500 seeds x 4 clients x 4 rounds: what it is off by is -lr times the noise."""
    dim, sigma, lr = 3, 6.0, 0.25
    spec = f"quadratic_random:dim={dim},sigma={sigma},zeta=2"
    common = {"dataset": spec, "clients": 4, "local_steps": 1, "lr": lr}
    program = Program([Setting(**common, seed=seed) for seed in range(500)], CPU)
    hessian, c, _ = split(program.clients.x)
    x = {"x": torch.full((500, dim), 10.0, dtype=torch.float64)}
    step = 10.0 - lr * (hessian.sum(2) * 10.0 + c)  # [M, d] without noise
    everyone = torch.arange(4).expand(500, 4)
    noise = torch.stack([(step - legs(program, x, everyone, round)) / lr for round in range(4)])  # [R, L, M, d]
    flat = noise.reshape(-1, dim).numpy()
    n = len(flat)
    assert np.abs(flat.mean(0)).max() < 4 * sigma / (dim * n) ** 0.5
    square = (flat**2).sum(1)
    assert abs(square.mean() - sigma**2) < 4 * sigma**2 * (2 / dim / n) ** 0.5
    covariance = np.cov(flat.T) / (sigma**2 / dim)
    assert np.abs(covariance - np.eye(dim)).max() < 5 * (2 / n) ** 0.5
    assert stats.kstest(flat.ravel() / (sigma / dim**0.5), "norm").pvalue > 1e-4
    for a, b in ((noise[0], noise[1]), (noise[:, :, 0], noise[:, :, 1]), (noise[:, 0::2], noise[:, 1::2])):
        assert abs(np.corrcoef(a.flatten(), b.flatten())[0, 1]) < 4 / a.numel() ** 0.5  # rounds, clients, seeds


def test_each_step_of_a_leg_has_its_own_noise() -> None:
    """With noise drawn once a leg the two steps would be off by the same."""
    lr, sigma = 0.1, 1.0
    common = {"dataset": f"quadratic_random:dim=1,L=1,mu=1,delta=0,sigma={sigma}", "clients": 2, "lr": lr}
    x = {"x": torch.full((2000, 1), 10.0, dtype=torch.float64)}
    client = torch.zeros((2000, 1), dtype=torch.int64)
    one, two = (
        legs(Program([Setting(**common, local_steps=k, seed=s) for s in range(2000)], CPU), x, client)[:, 0]
        for k in (1, 2)
    )
    data = datasets.load(Setting(**common).dataset, 2)
    c = float(data.x[0, 1])
    first = (10.0 - lr * (10.0 + c) - one) / lr
    second = (one - lr * (one + c) - two) / lr
    assert abs(float(second.square().mean()) - 1) < 4 * (2 / 2000) ** 0.5
    assert abs(np.corrcoef(first.flatten(), second.flatten())[0, 1]) < 4 / 2000**0.5


# What is recorded


@pytest.mark.parametrize("spec", ["quadratic:zeta=10,delta=1/3", "quadratic_random:dim=4,zeta=5,sigma=1"])
@pytest.mark.parametrize("start", ["10", "-2.5", "0.1"])
def test_distance_and_objective_gap_at_every_round_from_0(spec: str, start: str) -> None:
    setting = Setting(dataset=spec, model=f"quadratic:start={start}", rounds=6, eval_every=4, lr=0.05)
    _, seen = stages([setting])
    hessian, c, _ = (part.numpy() for part in split(datasets.load(setting.dataset, setting.clients).x))

    def objective(x: np.ndarray) -> float:
        return float(np.mean([x @ a @ x / 2 + b @ x for a, b in zip(hessian, c, strict=True)]))

    optimum = np.linalg.solve(hessian.mean(0), -c.mean(0))
    at = seen[-1]
    assert seen[0].state.model["x"][0].tolist() == [float(start)] * len(optimum)
    assert list(series(at, "distance")) == list(series(at, "objective_gap")) == [0, 1, 2, 3, 4, 5, 6]
    assert list(series(at, "test_loss")) == [0, 4, 6]
    for snapshot in seen:
        x = snapshot.state.model["x"][0].numpy()
        distance, gap = (series(at, metric)[snapshot.round] for metric in ("distance", "objective_gap"))
        assert distance == pytest.approx(np.linalg.norm(x - optimum), rel=1e-12)
        assert gap == pytest.approx(objective(x) - objective(optimum), rel=1e-9, abs=1e-10)
        if snapshot.round in (0, 4, 6):
            assert series(at, "test_loss")[snapshot.round] == pytest.approx(objective(x), rel=1e-12, abs=1e-12)
            assert series(at, "train_loss")[snapshot.round] == pytest.approx(objective(x), rel=1e-12, abs=1e-12)
    assert "test_accuracy" not in at.history
