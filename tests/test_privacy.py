"""What a leg tells: cut and noisy as stated, counted right, at a site as in a simulation, within a policy."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm as gauss

from attacks import apart, asked_twice
from baton import clients, datasets, privacy
from baton.deploy import policy as policies
from baton.deploy.messages import Refused, Train, Trained
from baton.deploy.policy import Policy
from baton.deploy.site import Samples, Site
from baton.deploy.wire import packed, unpacked
from baton.errors import BadInput
from baton.lanes import Params, norm
from baton.setting import Setting, changed
from baton.simulate.engine import Program, advance, start
from baton.sites.visit import Order, without_lane
from baton.store import Snapshot, Store
from contracts.examples import CPU, cases, examples, still
from federation import Field, samples, setting, simulated, train

WIDE = "gaussian:clip=1e6,noise=0"  # nothing is cut, nothing added
DP = "gaussian:clip=0.3,noise=0.2"


def end(*settings: Setting) -> Snapshot:
    program = Program(list(settings), CPU)
    *_, last = advance(program, start(program))
    return still(last)


def small(**more: object) -> Setting:
    return Setting(**{"rounds": 3, "eval_every": 3, "clients": 6, "participants": 4, **more})


# --- what is released


@pytest.mark.parametrize("spec", ["sequential", "parallel", "scaffold", "feddyn", "fedseq:groups=2", "pairgrab"])
@pytest.mark.parametrize("how", [{}, {"dtype": "float64"}, {"dataset": "quadratic_random:dim=3"}])
def test_without_noise_or_cut_it_is_the_run_without(spec: str, how: dict[str, str]) -> None:
    plain, wide = (end(small(algorithm=spec, dp=dp, **how)) for dp in ("none", WIDE))
    exact = {"rtol": 0.0, "atol": 0.0} if spec != "scaffold" else {"rtol": 1e-5, "atol": 1e-6}  # C sums its controls
    torch.testing.assert_close(wide.state.model, plain.state.model, **exact)


def test_a_run_without_is_the_run_that_says_so() -> None:
    assert small().run_id == small(dp="none").run_id != small(dp=DP).run_id
    assert Setting.from_json(small(dp=DP).to_json()) == small(dp=DP)


@given(
    away=st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=6, max_size=6),
    clip=st.floats(1e-3, 1e3),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_no_displacement_is_longer_than_the_clip(away: list[float], clip: float, dtype: torch.dtype) -> None:
    start = {"a": torch.zeros(1, 2, 2, dtype=dtype), "b": torch.zeros(1, 2, dtype=dtype)}
    ends = torch.tensor(away, dtype=dtype)
    moved = {"a": ends[:4].view(1, 2, 2), "b": ends[4:].view(1, 2)}
    told = privacy.released(
        start, moved, torch.tensor([clip]), torch.tensor([0.0]), privacy.keyed(torch.zeros(1).long())
    )
    assert float(norm(told)) <= clip * (1 + 1e-5)
    length = float(torch.linalg.vector_norm(ends.double()))
    if length > clip:  # it is as long as it may be, and points where it did
        assert float(norm(told)) == pytest.approx(clip, rel=1e-4)
        flat = torch.cat([leaf.flatten() for leaf in told.values()]).double()
        torch.testing.assert_close(flat * length, ends.double() * clip, rtol=1e-4, atol=1e-4 * length * clip)
    else:
        torch.testing.assert_close(told, moved, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_leg_that_failed_tells_noise_alone(bad: float) -> None:
    start, key = {"a": torch.ones(2, 1000)}, torch.tensor([1, 2])
    ends = {"a": torch.stack([torch.full((1000,), 1.5), torch.full((1000,), bad)])}
    told = privacy.released(start, ends, torch.tensor([1.0, 1.0]), torch.tensor([0.0, 0.1]), privacy.keyed(key))
    assert bool(told["a"].isfinite().all())
    assert float((told["a"][1] - 1).mean().abs()) < 0.02


def test_large_numbers_at_the_start_do_not_round_the_noise_away_alone() -> None:
    """The model is told as start + (displacement + noise): one rounding."""
    start, ends = {"a": torch.full((1, 8), 2.0**24)}, {"a": torch.full((1, 8), 2.0**24 + 2)}
    made = privacy.released(start, ends, torch.tensor([10.0]), torch.tensor([0.05]), privacy.keyed(torch.tensor([3])))
    noise = 0.5 * privacy.keyed(torch.tensor([3]))(0, start["a"])
    torch.testing.assert_close(made["a"], start["a"] + (2.0 + noise), rtol=0.0, atol=0.0)


def _drawn(seed: int, round: int, client: int, number: int = 0, leaf: int = 0) -> torch.Tensor:
    key = clients.visit(torch.tensor([seed]), round, torch.tensor([client]), number)
    return privacy.keyed(key)(leaf, torch.zeros(1, 20_000))[0]


def test_noise_is_normal_and_each_leg_has_its_own() -> None:
    every = [
        _drawn(1, 0, 0),
        _drawn(1, 1, 0),
        _drawn(1, 0, 1),
        _drawn(2, 0, 0),
        _drawn(1, 0, 0, 1),
        _drawn(1, 0, 0, 0, 1),
    ]
    every += [privacy.secret(b"own", about)(0, torch.zeros(1, 20_000))[0] for about in (b"one", b"two")]
    every += [privacy.secret(b"another's", b"one")(0, torch.zeros(1, 20_000))[0]]
    table = torch.stack(every).double()
    assert float((table.std(1) - 1).abs().max()) < 0.025  # five standard errors
    assert float(table.mean(1).abs().max()) < 0.036
    assert float((table > 1.6449).double().mean(1).sub(0.05).abs().max()) < 0.008
    away = torch.corrcoef(table) - torch.eye(len(table), dtype=torch.float64)
    assert float(away.abs().max()) < 0.036
    again = privacy.secret(b"own", b"one")(0, torch.zeros(1, 20_000))[0]
    assert torch.equal(again, every[6])


@pytest.mark.parametrize("spec", ["sequential", "parallel"])
def test_a_run_adds_what_it_says(spec: str) -> None:
    """Steps too small to move anything: what the model moves in a round is the noise of its legs."""
    s = small(algorithm=spec, lr=1e-12, rounds=1, eval_every=1, dp="gaussian:clip=0.5,noise=3")
    program = Program([s], CPU)
    first = still(start(program))
    *_, last = advance(program, first)
    moved = torch.cat([(last.state.model[n] - x).flatten() for n, x in first.state.model.items()])
    wanted = 1.5 * (2 if spec == "sequential" else 0.5)  # four legs: added up, or averaged
    assert float(moved.std()) == pytest.approx(wanted, rel=0.15)  # of 650 numbers: five standard errors


def test_clip_and_noise_are_lanes() -> None:
    both = [small(dp=dp) for dp in (DP, "gaussian:clip=2,noise=0.01")]
    assert both[0].shape_key == both[1].shape_key != small().shape_key
    together = end(*both).state.model
    for lane, s in enumerate(both):
        alone = end(s).state.model
        torch.testing.assert_close({n: x[lane] for n, x in together.items()}, without_lane(alone))


def test_what_scaffold_keeps_is_made_of_what_was_told() -> None:
    """The server's control stays the mean of the clients': both see the noisy model, nobody another one."""
    at = end(small(algorithm="scaffold", participants=6, dp=DP, dtype="float64"))
    means = {n: leaf.mean(1) for n, leaf in at.clients.items()}
    torch.testing.assert_close(means, dict(at.state.server))
    assert float(norm(at.state.server)) > 0


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"dp": "gaussian:noise=-1"}, "dp: gaussian:noise=-1; 0 or more is right"),
        ({"dp": "gaussian:clip=0"}, "dp: gaussian:clip=0; above 0 is right"),
        ({"dp": "gaussian:clip=inf"}, "dp: gaussian:clip=inf"),
        ({"dp": "gaus"}, "dp: no dp named 'gaus'; did you mean 'gaussian'?"),
        ({"dp": "json:loads"}, "dp: json:loads is code of your own"),
        ({"dp": 3}, "dp: 3 is not right"),
        ({"dp": DP, "algorithm": "ewc"}, "ewc sends gradients too"),
        ({"dp": DP, "algorithm": "scaffold:option=1"}, "scaffold sends gradients too"),
        ({"dp": DP, "algorithm": "switch:first=ewc,after=1"}, "switch sends gradients too"),
        ({"dp": DP, "algorithm": "ssl:cut=1"}, "ssl sends a layer's outputs for single samples too"),
        ({"dp": DP, "algorithm": "alone"}, "alone sends nothing that could be hidden: none is right"),
        ({"dp": DP, "algorithm": "pooled"}, "pooled sends nothing that could be hidden: none is right"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(more: dict[str, object], line: str) -> None:
    with pytest.raises(BadInput) as error:
        small(**more)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


# --- what it gives away


@given(noise=st.floats(0.3, 50), legs=st.integers(1, 400), delta=st.floats(1e-9, 1e-2))
def test_epsilon_is_that_of_one_gaussian(noise: float, legs: int, delta: float) -> None:
    """Balle and Wang's closed form: delta = F(mu/2 - eps/mu) - e^eps F(-mu/2 - eps/mu), mu = 2 sqrt(n) / noise."""
    found = privacy.epsilon(legs * privacy.loss(noise), delta)
    mu = 2 * legs**0.5 / noise
    told = gauss.cdf(mu / 2 - found / mu) - np.exp(found + gauss.logcdf(-mu / 2 - found / mu))
    if found > 0:
        assert told == pytest.approx(delta, rel=1e-5, abs=1e-13)
    assert found <= privacy.epsilon((legs + 1) * privacy.loss(noise), delta)
    assert found >= privacy.epsilon(legs * privacy.loss(noise * 1.1), delta)
    assert found >= privacy.epsilon(legs * privacy.loss(noise), delta * 2)
    assert found >= privacy.epsilon(legs * privacy.loss(noise, privacy.ABSENT), delta)


def test_legs_add_up_as_the_librarys_own_composition_says() -> None:
    """Twenty Gaussian mechanisms, composed as privacy-loss distributions; its discretisation is on the safe side."""
    import dp_accounting

    other = dp_accounting.pld.PLDAccountant()
    other.compose(dp_accounting.GaussianDpEvent(7.0 / privacy.REPLACED), 20)
    assert privacy.epsilon(20 * privacy.loss(7.0), 1e-6) == pytest.approx(other.get_epsilon(1e-6), rel=1e-3)


def test_noise_for_an_epsilon_has_that_epsilon() -> None:
    for aim in (0.5, 3.0, 20.0):
        noise = privacy.noise_for(aim, 37, 1e-6)
        assert privacy.epsilon(37 * privacy.loss(noise), 1e-6) == pytest.approx(aim, rel=1e-6)
    assert privacy.epsilon(privacy.loss(0.0)) == np.inf
    assert privacy.epsilon(0.0) == 0.0
    with pytest.raises(BadInput, match="delta: 1; above 0 and below 1 is right"):
        privacy.epsilon(1.0, 1.0)


@pytest.mark.parametrize("schedule", ["shuffled", "fixed", "replacement", "cyclic:groups=2"])
def test_turns_are_those_of_the_run(schedule: str) -> None:
    s = small(rounds=40, schedule=schedule, participants=3, dp=DP)
    orders = Program([s], CPU).orders(range(40))
    assert privacy.turns(s) == int(torch.bincount(orders.flatten()).max())
    found = privacy.spent(s)
    assert found is not None
    assert found.epsilon == privacy.epsilon(found.turns * privacy.loss(0.2))
    assert privacy.spent(small()) is None


def test_where_orders_are_not_draws_every_round_counts() -> None:
    assert privacy.turns(small(rounds=40)) < 40
    assert privacy.turns(small(rounds=40, algorithm="pairgrab")) == 40
    assert privacy.turns(small(rounds=40, schedule="sized")) == 40 * (4 if _repeats("sized") else 1)
    assert privacy.turns(small(rounds=40, failures="share:p=0.1", on_failure="reroute")) == 40
    assert privacy.turns(small(rounds=40, participants=6)) == 40


def _repeats(schedule: str) -> bool:
    from baton import schedules

    return schedules.build(schedule).declared.repeats


# --- at sites


class Open(Field):
    """Sites whose noise is the simulation's."""

    def new(self, site: str) -> Site:
        made = super().new(site)
        made.open_noise = True
        return made


@pytest.mark.parametrize("spec", ["sequential", "parallel:weighting=size", "scaffold", "feddyn", "fedseq:groups=2"])
def test_deployed_with_the_simulations_noise_it_is_the_simulated_run(spec: str, tmp_path: Path) -> None:
    s, store = setting(spec, dp=DP), Store(tmp_path / "runs")
    train(s, Open(s, tmp_path), store)
    told = {n: x[0] for n, x in end(simulated(s)).state.model.items()}
    torch.testing.assert_close(store.params(s.run_id), told, rtol=1e-6, atol=1e-7)


def test_a_sites_noise_is_its_own(tmp_path: Path) -> None:
    """Two federations that differ in their sites' secrets alone end differently; each site counts its legs."""
    s, ends = setting("parallel", dp=DP, participants=5), []
    for i in range(2):
        store, field = Store(tmp_path / f"runs-{i}"), Field(s, tmp_path / f"sites-{i}")
        train(s, field, store)
        ends.append(store.params(s.run_id))
        lines = (tmp_path / f"sites-{i}" / "site-0" / "released.csv").read_text().splitlines()
        assert len(lines) == s.rounds
    assert all(not torch.equal(ends[0][n], x) for n, x in ends[1].items())
    secrets = [(tmp_path / f"sites-{i}" / "site-0" / "secret") for i in range(2)]
    assert secrets[0].read_bytes() != secrets[1].read_bytes()
    assert secrets[0].stat().st_mode & 0o777 == 0o600


class One:
    """One site, asked by hand."""

    def __init__(self, folder: Path, s: Setting, held: Samples | None = None, **rules: object) -> None:
        folder.mkdir(exist_ok=True)
        self.s, self.site = s, Site(held or samples(s)[0], Policy(least_samples=0, **rules), folder)
        self.program = Program([simulated(s)], CPU)
        self.model = without_lane(self.program.net.init([s.seed]))

    def leg(self, round: int = 0, model: Params | None = None, attempt: int = 0, leg: str = "0.0") -> Trained | Refused:
        s = self.s
        step = s.local_steps, s.batch_size, s.lr, s.clip, s.weight_decay
        order = Order(model or self.model, 0, s.seed, round, 0, *step, attempt=attempt)
        said = unpacked(self.site.handle(packed(Train(s.to_json(), leg, "", order), 10.0)))
        assert isinstance(said, Trained | Refused)
        return said

    def told(self, **how: object) -> Params:
        said = self.leg(**how)  # type: ignore[arg-type]
        assert isinstance(said, Trained), said
        return said.answer.model


def test_asking_again_tells_nothing_new_and_asking_otherwise_is_other_noise(tmp_path: Path) -> None:
    s = setting("sequential", dp=DP)
    one = One(tmp_path / "one", s)
    first = one.told()
    for again in (one.told(attempt=2, leg="7.1"), One(tmp_path / "one", s).told()):  # a retry; after a restart
        torch.testing.assert_close(again, first, rtol=0.0, atol=0.0)
    assert len(one.site.releases.lines) == 1
    nudged = {n: x + (1e-6 if n == next(iter(one.model)) else 0.0) for n, x in one.model.items()}
    other = one.told(model=nudged)
    apart = torch.cat([(other[n] - first[n]).flatten() for n in first])
    assert float(apart.std()) == pytest.approx(2**0.5 * 0.06, rel=0.2)  # two independent draws, not none
    assert len(one.site.releases.lines) == 2
    held = samples(s)[0]
    fewer = Samples(held.x[1:], held.y[1:], held.test_x, held.test_y)
    apart = One(tmp_path / "one", s, fewer).told()
    assert float(torch.cat([(apart[n] - first[n]).flatten() for n in first]).std()) > 0.05


UNPROTECTED = ("alone", "pooled", "ssl", "splitfed", "ewc", "scaffold:option=1")  # which dp refuses


@pytest.mark.parametrize("spec", cases([s for s in examples("algorithm") if not s.startswith(UNPROTECTED)]))
def test_no_noise_cancels_where_one_name_stands_for_two_orders(spec: str, tmp_path: Path) -> None:
    """Every algorithm: two answers are the same to the bit and count once, or each has noise of its own and counts."""
    one, _, two, before, after = asked_twice(spec, tmp_path)
    assert (apart(one, two), after) == (0, before) or (apart(one, two) > 50 and after > before)


def test_a_site_keeps_within_its_budget(tmp_path: Path) -> None:
    s = setting("sequential", dp="gaussian:clip=1,noise=20", rounds=4, participants=5)
    most = privacy.epsilon(4 * privacy.loss(20.0)) * 1.001
    one = One(tmp_path / "one", s, most_epsilon=most)
    for round in range(4):
        one.told(round=round)
    other = {n: x + 1 for n, x in one.model.items()}
    assert one.leg(round=3, model=other) == Refused("epsilon")  # whatever the server says that the run is
    one.told(round=2)  # what was told is told again
    again = One(tmp_path / "one", s, most_epsilon=most)
    assert again.leg(round=2, model=other) == Refused("epsilon")  # it remembers
    another = setting("sequential", dp="gaussian:clip=1,noise=20", rounds=1, participants=5)
    assert One(tmp_path / "one", another, most_epsilon=most).leg() == Refused("epsilon")  # in other runs too
    assert One(tmp_path / "new", s, most_epsilon=most * 0.9).leg() == Refused("epsilon")  # the whole run, before it
    assert One(tmp_path / "new", setting("sequential"), most_epsilon=1e6).leg() == Refused("epsilon")  # no noise


def test_a_site_asks_for_noise(tmp_path: Path) -> None:
    s = setting("sequential", dp="gaussian:clip=1,noise=2")
    assert isinstance(One(tmp_path / "a", s, least_noise=2.0).leg(), Trained)
    assert One(tmp_path / "a", s, least_noise=2.1).leg() == Refused("noise")
    assert One(tmp_path / "a", setting("sequential"), least_noise=0.1).leg() == Refused("noise")
    one = One(tmp_path / "b", setting("ssl:cut=1"), least_noise=0.1, algorithms=["ssl"])
    one.s = changed(one.s, dp="gaussian:noise=5")  # which no server of ours would send
    assert one.leg() == Refused("setting")


def test_a_last_line_that_was_cut_short_counts_nothing(tmp_path: Path) -> None:
    s = setting("sequential", dp=DP)
    One(tmp_path / "one", s).told()
    lines = tmp_path / "one" / "released.csv"
    lines.write_text(lines.read_text() + "abc,12")
    assert len(One(tmp_path / "one", s).site.releases.lines) == 1


@pytest.mark.parametrize("line", ["abc", "a,b,nan", "a,b,-1.0", "a,b,1.0,2.0"])
def test_a_line_that_is_none_is_refused_in_words(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    s = setting("sequential", dp=DP)
    One(tmp_path / "one", s).told()
    book = tmp_path / "one" / "released.csv"
    book.write_text(f"{book.read_text()}{line}\n")
    assert One(tmp_path / "one", s).leg() == Refused("books")
    assert "released.csv: line 2: got" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("least_noise = -1.0", "least_noise: -1.0 is not right"),
        ("most_epsilon = nan", "most_epsilon: nan is not right"),
        ("delta = 1.0", "delta: 1.0 is not right"),
        ("most_epsilom = 1.0", "no field 'most_epsilom'"),
    ],
)
def test_a_policys_mistakes_are_one_line(line: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(f"{line}\n")
    with pytest.raises(BadInput) as error:
        policies.read(tmp_path / "policy.toml")
    assert what in str(error.value)
    assert "\n" not in str(error.value)


# --- metrics by site, over the wire

METRICS = "accuracy,loss,auc,sensitivity,specificity,f1,balanced_accuracy,brier,calibration:bins=5"


class Hospitals(Field):
    """Sites with the test rows that are theirs; some do not tell."""

    def __init__(self, s: Setting, folder: Path, silent: tuple[str, ...] = (), **rules: object) -> None:
        super().__init__(s, folder, Policy(least_samples=0, **rules))
        data = datasets.load(s.dataset, s.clients)
        assert data.test_owner is not None
        for m, (site, held) in enumerate(list(self.held.items())):
            mine = data.test_owner == m
            self.held[site] = Samples(held.x, held.y, data.test_x[mine], data.test_y[mine])
            self.policy = Policy(least_samples=0, metrics=site not in silent, **rules)
            self.restart(site)


def hospitals(**more: object) -> Setting:
    base = {"partition": "natural", "clients": 4, "participants": 4, "model": "logistic", "dataset": "breast_cancer"}
    return setting("sequential", **{**base, "metrics": METRICS, **more})


def test_every_sites_metrics_are_the_simulations(tmp_path: Path) -> None:
    s = hospitals()
    simulation, wire = Store(tmp_path / "simulated"), Store(tmp_path / "runs")
    program = Program([simulated(s)], CPU)
    *_, last = advance(program, start(program))
    simulation.finish([simulated(s)], last, measured=program.evaluate.measured)
    train(s, Hospitals(s, tmp_path), wire)
    wanted, found = simulation.sites(simulated(s).run_id), wire.sites(s.run_id)
    assert wanted is not None
    assert found is not None
    assert (found.rounds, found.rows) == (wanted.rounds, wanted.rows)
    assert found.values.keys() == wanted.values.keys()
    for label, values in wanted.values.items():
        np.testing.assert_allclose(found.values[label], values, rtol=1e-6, atol=1e-7, err_msg=label)
    theirs, ours = simulation.read(simulated(s).run_id).metrics, wire.read(s.run_id).metrics
    columns = [name for name in theirs if name.startswith("site_")]
    assert len(columns) == 4 * 9
    for name in columns:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-6, atol=1e-6, err_msg=name)


def test_a_site_that_does_not_tell_is_an_empty_cell(tmp_path: Path) -> None:
    s, store = hospitals(metrics="auc"), Store(tmp_path / "runs")
    train(s, Hospitals(s, tmp_path, silent=("site-1",)), store)
    found = store.sites(s.run_id)
    assert found is not None
    assert np.isnan(found.values["auc"]).tolist() == [[False, True, False, False]] * len(found.rounds)
    assert found.rows[1] == 0
    mean = store.read(s.run_id).metrics["site_auc_mean"]
    np.testing.assert_allclose(mean, np.nanmean(found.values["auc"].astype(float), 1), rtol=1e-6)


def test_a_policys_noise_is_on_metrics_too(tmp_path: Path) -> None:
    s, found = hospitals(metrics="auc", rounds=1, eval_every=1), []
    for i, noise in enumerate((0.0, 0.2)):
        store = Store(tmp_path / f"runs-{i}")
        train(s, Hospitals(s, tmp_path / f"{i}", noise=noise), store)
        table = store.sites(s.run_id)
        assert table is not None
        found.append(table.values["auc"])
    assert (found[0] != found[1]).all()


def test_a_server_that_died_still_knows_the_rows(tmp_path: Path) -> None:
    from baton.deploy.transport import Ended
    from test_deploy_run import Stops

    s, store = hospitals(metrics="auc", eval_every=1), Store(tmp_path / "runs")
    field = Hospitals(s, tmp_path)
    for _ in range(40):
        try:
            train(s, field, store, Stops(2))
            break
        except Ended:
            continue
    table = store.sites(s.run_id)
    assert table is not None
    assert min(table.rows) > 0
    assert table.rounds == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("auc,per_class", "metrics: auc,per_class; sites do not tell classes apart"),
        ("mse", "metrics: mse is of predicted"),
    ],
)
def test_metrics_that_sites_cannot_tell_are_refused(asked: str, line: str, tmp_path: Path) -> None:
    s = hospitals(metrics=asked)
    with pytest.raises(BadInput, match=line):
        train(s, Hospitals(hospitals(), tmp_path), Store(tmp_path / "runs"))
