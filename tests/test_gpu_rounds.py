"""Rounds on a GPU, recorded and replayed, are those on a CPU: every algorithm, with all that a round may have."""

import pytest
import torch

from baton.algorithms import Algorithm, build
from baton.lanes import Params
from baton.setting import Setting
from baton.simulate.engine import Program, advance, first
from baton.store import Snapshot
from contracts.examples import CPU, examples

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="it trains on a CUDA device, and there is none here"
)
NEAR = 0.02  # of a leaf's way from the start
MORE = {
    "plain": {},
    "terms": {"momentum": 0.5, "lr_schedule": "exponential:factor=0.9,warmup=2", "clip": 0.5, "weight_decay": 0.01},
    "failures": {"failures": "share:p=0.3", "on_failure": "reroute:times=1"},
    "abort": {"failures": "share:p=0.2", "on_failure": "abort"},
    "epochs": {"epochs": 1, "momentum": 0.5},
    "balanced": {"sampling": "balanced"},
    "dp": {"dp": "gaussian:clip=0.3,noise=0.05"},
}


def alternating() -> Algorithm:
    """A chain in even rounds, an average in odd ones; clients in the order of their numbers."""
    chain, mean = build("sequential").round, build("parallel", torch.float32).round
    return Algorithm(
        lambda state, order, sites: (mean if sites.now.kind else chain)(state, order, sites),
        order=lambda _state, order, _now: order.sort(1).values,
        kind=lambda number: number % 2,
    )


def program(spec: str, where: torch.device, more: dict[str, object]) -> Program:
    base = {"model": "mlp:hidden=12", "clients": 12, "participants": 4, "partition": "exdir:C=2,alpha=10", "rounds": 6}
    lanes = [Setting(**{**base, **more}, algorithm=spec, lr=0.05 * s, seed=s, eval_every=6) for s in (1, 2, 3)]
    return Program(lanes, where)


def trained(spec: str, where: torch.device, more: dict[str, object]) -> Snapshot:
    made = program(spec, where, more)
    *_, last = advance(made, first(made))
    return last


def close(found: Params, right: Params, begun: Params) -> None:
    """Every leaf within 2 % of how far it went: a rounding may flip a ReLU here and there, other draws go elsewhere."""
    assert found.keys() == right.keys()
    for name, leaf in right.items():
        apart, went = (found[name].cpu() - leaf).double().norm(), (leaf - begun[name].cpu()).double().norm()
        assert apart <= NEAR * went + 1e-6, f"{name}: {float(apart):.3g} apart, {float(went):.3g} from the start"


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("spec", [*examples("algorithm"), "fedseq:groups=2", "test_gpu_rounds:alternating"])
def test_rounds_are_those_of_a_cpu(spec: str, more: str) -> None:
    if "failures" in MORE[more] and spec in ("alone", "pooled"):
        pytest.skip(f"{spec} refuses failures: it hands no leg on that could be lost")
    if more == "epochs" and "passes" in spec:
        pytest.skip(f"{spec} refuses epochs: passes= sets the length of legs already")
    if more == "dp" and spec.startswith(("ssl", "splitfed", "ewc", "scaffold:option=1", "alone", "pooled")):
        pytest.skip(f"{spec} refuses dp: it tells more than where legs end, or nothing")
    one, other = (trained(spec, where, MORE[more]) for where in (CPU, torch.device("cuda")))
    begun = first(program(spec, CPU, MORE[more]))
    close(other.state.model, one.state.model, begun.state.model)
    close(other.state.server, one.state.server, begun.state.server)
    close(other.clients, one.clients, begun.clients)
    assert torch.equal(one.diverged, other.diverged.cpu())


def test_what_clients_keep_is_written_once_however_often_it_is_tried() -> None:
    """Recording a round trains it before: that must leave no trace."""
    state = trained("scaffold", torch.device("cuda"), {"rounds": 1}).clients
    again = trained("scaffold", CPU, {"rounds": 1}).clients
    close(state, again, first(program("scaffold", CPU, {"rounds": 1})).clients)
