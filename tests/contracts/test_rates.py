"""Every schedule of the learning rate: finite, pure, rises during its warmup; and the factors are PyTorch's."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler

from baton import rates
from baton.errors import BadInput
from baton.names import canonical
from baton.setting import Setting
from contracts.examples import BAD, examples, missing

EVERY = pytest.mark.parametrize("spec", examples("lr_schedule"))
Made = Callable[[torch.optim.Optimizer], lr_scheduler.LRScheduler]


def factors(spec: str, rounds: int = 60) -> list[float]:
    setting = Setting(lr_schedule=spec, rounds=rounds)
    return [setting.factor(round) for round in range(rounds)]


def test_every_name_has_an_example() -> None:
    assert missing("lr_schedule") == []


@pytest.mark.parametrize("spec", BAD["lr_schedule"])
def test_bad_options_are_refused_in_one_line(spec: str) -> None:
    with pytest.raises(BadInput) as error:
        Setting(lr_schedule=spec)
    assert str(error.value).startswith("lr_schedule: ")
    assert "\n" not in str(error.value)


@EVERY
@given(round=st.integers(0, 10**6))
def test_a_factor_is_between_0_and_1_and_always_the_same(spec: str, round: int) -> None:
    factor = rates.build(Setting(lr_schedule=spec).lr_schedule)
    assert type(factor(round)) is float
    assert 0 <= factor(round) <= 1
    assert factor(round) == factor(round)


@pytest.mark.parametrize("spec", [spec for spec in examples("lr_schedule") if "warmup" not in spec])
def test_the_rate_rises_linearly_and_then_the_schedule_begins_at_its_own_round_0(spec: str) -> None:
    whole = Setting(lr_schedule=spec, rounds=60).lr_schedule
    later = whole.replace("over=60", "over=67")  # which counts from the run's start
    warm = rates.build(f"{later}{',' if ':' in later else ':'}warmup=7")
    assert [warm(round) for round in range(7)] == pytest.approx([i / 7 for i in range(1, 8)], rel=1e-15)
    assert [warm(round) for round in range(7, 67)] == factors(whole)


def followed(make: Made, rounds: int) -> list[float]:
    """The factors of PyTorch's own, in float64."""
    optimizer = torch.optim.SGD([torch.zeros((), dtype=torch.float64, requires_grad=True)], lr=1.0)
    schedule = make(optimizer)
    found = []
    for _ in range(rounds):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


CASES: list[tuple[str, Made]] = [
    ("constant", lambda o: lr_scheduler.ConstantLR(o, 1.0)),
    ("step:every=7", lambda o: lr_scheduler.StepLR(o, 7, 0.1)),
    ("step:every=1,factor=0.5", lambda o: lr_scheduler.StepLR(o, 1, 0.5)),
    ("exponential", lambda o: lr_scheduler.ExponentialLR(o, 0.99)),
    ("exponential:factor=0.7", lambda o: lr_scheduler.ExponentialLR(o, 0.7)),
    ("cosine", lambda o: lr_scheduler.CosineAnnealingLR(o, 60)),
    ("cosine:floor=0.1", lambda o: lr_scheduler.CosineAnnealingLR(o, 60, eta_min=0.1)),
    ("cosine:over=200", lambda o: lr_scheduler.CosineAnnealingLR(o, 200)),
]


@pytest.mark.parametrize(("spec", "make"), CASES, ids=[spec for spec, _ in CASES])
def test_factors_are_pytorchs(spec: str, make: Made) -> None:
    assert factors(spec) == pytest.approx(followed(make, 60), rel=1e-12, abs=1e-15)


WARM: list[tuple[str, Made]] = [
    ("constant:warmup=5", lambda o: lr_scheduler.ConstantLR(o, 1.0)),
    ("step:every=7,warmup=5", lambda o: lr_scheduler.StepLR(o, 7, 0.1)),
    ("exponential:factor=0.9,warmup=5", lambda o: lr_scheduler.ExponentialLR(o, 0.9)),
    ("cosine:warmup=5", lambda o: lr_scheduler.CosineAnnealingLR(o, 55)),
    ("cosine:floor=0.1,warmup=5", lambda o: lr_scheduler.CosineAnnealingLR(o, 55, eta_min=0.1)),
]


@pytest.mark.filterwarnings("ignore")  # PyTorch's, about a call that its own SequentialLR makes
@pytest.mark.parametrize(("spec", "make"), WARM, ids=[spec for spec, _ in WARM])
def test_with_a_warmup_factors_are_those_of_pytorchs_sequential(spec: str, make: Made) -> None:
    def both(optimizer: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
        rising = lr_scheduler.LinearLR(optimizer, start_factor=1 / 5, total_iters=4)
        return lr_scheduler.SequentialLR(optimizer, [rising, make(optimizer)], milestones=[5])

    assert factors(spec) == pytest.approx(followed(both, 60), rel=1e-12, abs=1e-15)


def test_cosine_stays_at_its_floor() -> None:
    assert factors("cosine:over=10,floor=0.25")[10:] == [0.25] * 50
    assert factors("cosine:over=10")[10:] == [0.0] * 50


def test_what_cosine_falls_over_is_part_of_the_setting() -> None:
    short, long = (Setting(lr_schedule="cosine", rounds=rounds) for rounds in (50, 100))
    assert (short.lr_schedule, long.lr_schedule) == ("cosine:over=50", "cosine:over=100")
    assert Setting(lr_schedule="cosine").lr_schedule == "cosine:over=100"
    assert short.kin != long.kin  # neither is the other's beginning
    asked = Setting(lr_schedule="cosine:over=100", rounds=50)
    assert asked.kin == long.kin
    assert asked.run_id != long.run_id
    assert [asked.factor(round) for round in range(50)] == [long.factor(round) for round in range(50)]
    assert Setting.from_json(short.to_json()) == short


def test_the_one_spelling() -> None:
    assert canonical("lr_schedule", "step:warmup=0,factor=0.10,every=5", rates.RATES) == "step:every=5"


def test_a_users_own_is_filled_in_and_held_to_what_it_gives() -> None:
    assert Setting(lr_schedule="user_modules:falling", rounds=8).lr_schedule == "user_modules:falling:over=8"
    falling = Setting(lr_schedule="user_modules:falling:over=4", rounds=8)
    assert [falling.factor(round) for round in range(5)] == [1.0, 0.75, 0.5, 0.25, 0.0]
    with pytest.raises(
        BadInput, match=r"lr_schedule: user_modules:falling gives -0.25 in round 5; a number, 0 or more"
    ):
        falling.factor(5)
    with pytest.raises(BadInput, match="lr_schedule: user_modules:falling gives a str in round 0"):
        Setting(lr_schedule="user_modules:falling:over=1,word=true")
    with pytest.raises(BadInput, match=r"failed \(ZeroDivisionError: .* in user_modules.py, line"):
        Setting(lr_schedule="user_modules:falling:over=0")
