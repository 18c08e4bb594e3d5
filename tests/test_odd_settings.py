"""What odd settings show of the engine: aborted rounds, clients drawn twice, weights of 0, leaves in other orders."""

import csv
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

import baton
from baton import failures
from baton.lanes import Params
from baton.seam import State
from baton.setting import Setting
from baton.simulate.engine import Program, first
from baton.simulate.kept import laid_out
from baton.simulate.rounds import ahead
from baton.store import Snapshot
from contracts.examples import CPU, finish, refused


def numbers() -> tuple[Tensor, Tensor]:
    """90 rows of 7 numbers and 3 classes."""
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(90, 7, generator=draw)
    return x, (x[:, :3] + 0.3 * torch.randn(90, 3, generator=draw)).argmax(1)


def rows() -> baton.Data:
    """Those rows, as a user passes them."""
    x, y = numbers()
    return baton.Data(x.numpy(), y.numpy())


def setting(algorithm: str = "sequential", **more: object) -> Setting:
    base: dict[str, object] = {"dataset": rows(), "partition": "iid", "model": "logistic", "clients": 6}
    base |= {"participants": 3, "local_steps": 2, "rounds": 8, "batch_size": 7, "lr": 0.1, "dtype": "float64"}
    return Setting(**{**base, "eval_every": 1, "algorithm": algorithm, **more})


class Followed(NamedTuple):
    """A run of one lane, round by round; the first entries are those before it."""

    models: list[Params]
    states: list[State]
    clients: list[Params]
    orders: list[list[int]]

    @property
    def aborted(self) -> list[int]:
        """Rounds that left the model as it was."""
        pairs = zip(self.models, self.models[1:], strict=False)
        return [r for r, (one, two) in enumerate(pairs) if all(torch.equal(one[n], two[n]) for n in one)]


def followed(s: Setting) -> Followed:
    program = Program([s], CPU)
    at = first(program)
    state, diverged, tables, train = at.state, at.diverged, laid_out(at.clients, None), ahead(program)
    models, states, clients, orders = [lane(state.model)], [state], [copied(tables)], list[list[int]]()
    for round in range(s.rounds):
        order, state, diverged = train(round, state, tables, diverged)
        models.append(lane(state.model))
        states.append(state)
        clients.append(copied(tables))
        orders.append(order[0].tolist())
    return Followed(models, states, clients, orders)


def lane(x: Params) -> Params:
    return {n: leaf[0].clone() for n, leaf in x.items()}


def copied(x: Params) -> Params:
    return {n: leaf.clone() for n, leaf in x.items()}


def aborted_at(algorithm: str, round: int, **more: object) -> Followed:
    """A run of which this round alone is aborted."""
    for seed in range(400):
        s = setting(algorithm, failures="share:p=0.05", on_failure="abort", seed=seed, **more)
        program = Program([s], CPU)
        order = program.order(round)
        given = program.failing, program.policy, program.lanes.seed, round, order, order, s.clients
        if not bool(failures.walked(*given).came.all()) and (found := followed(s)).aborted == [round]:
            return found
    raise AssertionError("no such seed")


def model_of(at: Snapshot) -> Params:
    return {n: leaf[0] for n, leaf in at.state.model.items()}


def far(one: Params, two: Params) -> float:
    return max(float((one[n] - leaf).abs().max()) for n, leaf in two.items())


# 1


@pytest.mark.parametrize("model", ["logistic", "mlp:hidden=5"])
def test_clipped_legs_of_torch_go_on_to_the_same_bytes(model: str, tmp_path: Path) -> None:
    more = {"model": model, "clip": 0.2, "clients": 4, "participants": 4, "batch_size": 3}
    whole = setting(rounds=12, **more)
    baton.run(setting(rounds=4, **more), tmp_path / "a", quiet=True)
    baton.run(whole, tmp_path / "a", quiet=True)
    baton.run(whole, tmp_path / "b", quiet=True)
    for name in ("state.safetensors", "metrics.csv"):
        one, two = (tmp_path / folder / whole.run_id / name for folder in "ab")
        assert one.read_bytes() == two.read_bytes()


# 2, 3, 5: aborted rounds


def test_models_that_are_handed_over_stay_with_the_clients_that_were_drawn_for_them() -> None:
    orders = aborted_at("feddc:every=4,swap=4", 0).orders
    assert orders[:4] == [orders[0]] * 4


@pytest.mark.parametrize("algorithm", ["flgrab", "pairgrab"])
def test_an_epoch_has_an_order_whichever_round_was_aborted(algorithm: str) -> None:
    orders = aborted_at(algorithm, 1, schedule="reshuffled").orders  # the last round of the first epoch
    for epoch in range(1, 4):
        assert sorted(orders[2 * epoch] + orders[2 * epoch + 1]) == list(range(6))


@pytest.mark.parametrize("then", ["feddc:every=3", "fedseqinter:groups=2+every=3", "amplified:every=2+server_lr=1.5"])
def test_the_second_method_of_a_switch_begins_from_the_model(then: str) -> None:
    """The learning rate is next to nothing from its first round on, so that the model stays where it is."""
    more = {"lr_schedule": "test_odd_settings:falls", "rounds": 7}
    models = aborted_at(f"switch:first=parallel,then={then},after=4", 4, **more).models
    assert far(models[4], models[0]) > 0.01
    assert far(models[7], models[4]) < 1e-6


def falls(round: int) -> float:
    """A rate that all but ends after four rounds."""
    return 1.0 if round < 4 else 1e-9


def test_controls_of_a_period_are_the_same_at_server_and_clients() -> None:
    """Whichever round of a period was aborted: c is the mean of the controls in use."""
    for round in range(4):
        found = aborted_at("amplified_scaffold:every=2", round, clients=3)
        c = {n.removeprefix("c."): leaf for n, leaf in found.states[-1].server.items() if n.startswith("c.")}
        for name, leaf in c.items():
            mean = found.clients[-1][f"new.{name}"].mean(
                1
            )  # all three take part in every round, and a period has ended
            torch.testing.assert_close(leaf, mean, rtol=1e-9, atol=1e-12)


# 4: a client that stands twice in a round


@pytest.mark.parametrize(
    "algorithm", ["scaffold", "feddyn:alpha=1.0", "amplified_scaffold:every=1", "switch:then=scaffold"]
)
def test_a_schedule_that_draws_a_client_twice_is_refused_where_sums_would_be_lost(algorithm: str) -> None:
    line = refused({"algorithm": algorithm, "schedule": "replacement", "rounds": 10})
    assert line.startswith("schedule: ")
    assert "replacement" in line


def test_each_leg_of_a_client_that_is_drawn_twice_has_a_stand_in_of_its_own() -> None:
    order = torch.tensor([[2, 2, 1]])
    policy, seed = failures.policy("reroute:times=1"), torch.tensor([3])
    one, two = (failures.tries(policy, seed, 0, order[:, i : i + 1], order, 9, (i,))[0, 0, 1] for i in (0, 1))
    assert int(one) != int(two)


# 6


@pytest.mark.parametrize("schedule", ["sized", "grouped:each=1"])
def test_schedules_that_ask_what_clients_hold_take_numbers_to_tell(schedule: str, tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(2)
    x = torch.randn(60, 3, generator=draw)
    data = baton.Data(x.numpy(), (x.sum(1) + 0.5).numpy())
    s = Setting(dataset=data, partition="iid", clients=4, participants=2, rounds=2, lr=0.01, schedule=schedule)
    (run,) = baton.run(s, tmp_path, quiet=True)
    assert run.metrics["test_loss"][-1] < run.metrics["test_loss"][0]


# 7: weights of 0


def weighted(weight: list[float], **more: object) -> Snapshot:
    x, y = (part.numpy() for part in numbers())
    count = len(weight)
    few = baton.Data(x[:count], y[:count], weight=np.array(weight), test=(x[60:], y[60:]))
    base = {"clients": 1, "participants": 1, "rounds": 1, "local_steps": 1, "batch_size": 8}
    return finish([setting(dataset=few, **{**base, **more})])[1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_client_trains_whatever_its_first_sample_weighs(seed: int, dtype: str, tmp_path: Path) -> None:
    """One of two clients is empty, which must not be told by weights."""
    place = tmp_path / "map.json"
    place.write_text(json.dumps({"0": list(range(8)), "1": []}))
    more = {"clients": 2, "participants": 2, "seed": seed, "dtype": dtype, "partition": f"file:{place}"}
    found = weighted([0.0] * 7 + [1.0], **more)
    alone = weighted([0.0] * 7 + [1.0], seed=seed, dtype=dtype, partition="iid")
    assert far(model_of(found), model_of(alone)) < 1e-6


def test_a_step_of_samples_that_weigh_nothing_is_taken_in_c_as_in_torch() -> None:
    """Its gradient is 0; decay acts."""
    more = {"weight_decay": 0.1, "local_steps": 3, "batch_size": 1, "rounds": 4}
    in_c, in_torch = (weighted([0.0, 1.0] * 4, dtype=dtype, **more) for dtype in ("float32", "float64"))
    mine = {n: leaf.double() for n, leaf in model_of(in_c).items()}
    assert far(mine, model_of(in_torch)) < 1e-6


def test_passes_over_samples_that_weigh_nothing_are_steps_too() -> None:
    """K steps and as many by passes are the same."""
    more = {"weight_decay": 0.1, "batch_size": 1}
    steps = weighted([0.0, 1.0] * 4, local_steps=8, **more)
    passes = weighted([0.0, 1.0] * 4, local_steps=0, epochs=1, **more)
    assert far(model_of(steps), model_of(passes)) < 1e-12


# 8


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_the_fisher_of_ewc_does_not_depend_on_the_learning_rate(strength: float, dtype: str) -> None:
    """At rates of 0 and next to 0 the model stays, and F = keep F + mean g^2 is that of the model."""

    def fisher(lr: float) -> Params:
        at = finish([setting(f"ewc:strength={strength},keep=0.5", lr=lr, dtype=dtype, rounds=3)])[1]
        return {n: leaf[0].double() for n, leaf in at.state.server.items()}

    tiny, small = fisher(1e-12), fisher(1e-9)
    for name, leaf in tiny.items():
        assert float(leaf.max()) > 1e-4
        torch.testing.assert_close(leaf, small[name], rtol=1e-6, atol=1e-12)
    over = finish([setting("ewc:keep=0.5", rounds=2, lr_schedule="test_odd_settings:ends", dtype=dtype)])[1]
    once = finish([setting("ewc:keep=0.5", rounds=1, dtype=dtype)])[1]
    gained = {n: leaf - 0.125 * once.state.server[n] for n, leaf in over.state.server.items()}  # three legs a round
    assert max(float(leaf.max()) for leaf in gained.values()) > 1e-4


def ends(round: int) -> float:
    """A rate of 0 from the second round on."""
    return float(round < 1)


# 9


@pytest.mark.parametrize(("groups", "wanted"), [(3, (3, 3, 2)), (2, (2, 2, 3)), (4, (4, 4, 1))])
@pytest.mark.parametrize("algorithm", ["fedseq:groups=", "fedseqinter:every=2,groups="])
def test_longer_chains_send_no_more_up(algorithm: str, groups: int, wanted: tuple[int, ...], tmp_path: Path) -> None:
    s = setting(f"{algorithm}{groups}", participants=5, rounds=2, eval_every=2)
    (run,) = baton.run(s, tmp_path, quiet=True)
    model = 8 * sum(leaf.numel() for leaf in run.module().parameters())
    sent = tuple(run.metrics[f"bytes_{way}"][-1] / (2 * model) for way in ("up", "down", "peer"))
    assert sent == wanted


# 10


def test_cells_that_cannot_be_told_are_empty_in_runs_that_were_extended_too(tmp_path: Path) -> None:
    more = {"partition": "exdir:C=1,alpha=1,form=plain,min_samples=0", "clients": 12, "participants": 1}

    def written(folder: str, *rounds: int) -> bytes:
        for count in rounds:
            s = setting(rounds=count, seed=35, **more)
            baton.run(s, tmp_path / folder, quiet=True)
        return (tmp_path / folder / s.run_id / "metrics.csv").read_bytes()

    whole, extended = written("a", 8), written("b", 4, 8)
    assert whole == extended
    cells = [row["train_loss"] for row in csv.DictReader(whole.decode().splitlines())]
    assert "" in cells
    assert "nan" not in cells


# Company


def test_scaffold_has_the_same_bits_beside_another_schedule_of_rates() -> None:
    base = {"dtype": "float32", "participants": 3}
    one, other = setting("scaffold", **base), setting("scaffold", lr_schedule="cosine", **base)
    alone, both = finish([one])[1], finish([one, other])[1]
    for name, leaf in alone.state.model.items():
        assert torch.equal(leaf[0], both.state.model[name][0])


def test_ewc_without_strength_is_the_plain_chain_to_the_bit_in_any_company(tmp_path: Path) -> None:
    settings = [setting(a, dtype="float32") for a in ("ewc:strength=0.0", "ewc:strength=5.0", "sequential")]
    without, _, plain = (run.module().state_dict() for run in baton.run(settings, tmp_path, quiet=True))
    assert all(torch.equal(leaf, without[name]) for name, leaf in plain.items())


def test_the_first_control_of_feddyn_keeps_its_digits_at_small_rates() -> None:
    """h_i = alpha (x - y) of the first leg, to the last digits of y."""
    more = {"dtype": "float32", "participants": 1, "clients": 2, "rounds": 1, "lr": 1e-4}
    at = finish([setting("feddyn:alpha=0.01", **more)])[1]
    exact = finish([setting("feddyn:alpha=0.01", **{**more, "dtype": "float64"})])[1]
    for name, leaf in at.clients.items():
        wanted = exact.clients[name]
        assert float((leaf.double() - wanted).abs().max()) < 2e-2 * float(wanted.abs().max())
