"""Names as users write them: options that are lanes, and a user's own code that goes wrong."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from baton.errors import BadInput
from baton.names import bind, canonical, extended, lane, lanes_of, options, shared, signature
from baton.usercode import call


def fedprox(*, weighting: str = "uniform", mu: Tensor = lane(0.01, least=0.0), passes: int = 0) -> None: ...


def adam(
    *,
    beta: "Tensor" = lane(0.9, least=0, below=1),
    eps: Tensor = lane(1e-3, above=0),
    share: Tensor = lane(1, least=0, most=1),
    free: Tensor = lane(2),
) -> None: ...


def plain(*, mu: float = 0.5, who: str = "3") -> None: ...


KNOWN = {"fedprox": fedprox, "adam": adam, "plain": plain}


def test_an_option_that_is_a_lane_has_its_number_given_or_not() -> None:
    assert bind("algorithm", "fedprox", KNOWN)[2] == {"mu": 0.01}
    assert bind("algorithm", "fedprox:passes=2,mu=1", KNOWN)[2] == {"mu": 1.0, "passes": 2}
    assert type(bind("algorithm", "fedprox:mu=1", KNOWN)[2]["mu"]) is float
    assert lanes_of("algorithm", "adam:free=1/3,beta=0", KNOWN) == {
        "beta": 0.0,
        "eps": 1e-3,
        "share": 1.0,
        "free": 1 / 3,
    }
    assert lanes_of("algorithm", "plain:mu=2", KNOWN) == {}
    assert options(fedprox)["mu"].default == 0.01


@pytest.mark.parametrize(
    ("spec", "spelled", "rest"),
    [
        ("fedprox", "fedprox", "fedprox"),
        ("fedprox:mu=0.01", "fedprox", "fedprox"),
        ("fedprox:passes=2,mu=1.0,weighting=n", "fedprox:weighting=n,mu=1,passes=2", "fedprox:weighting=n,passes=2"),
        ("fedprox:mu=0,passes=0", "fedprox:mu=0", "fedprox"),
        ("adam:free=1/3,share=1", "adam:free=1/3", "adam"),
        ("plain:mu=0.25", "plain:mu=0.25", "plain:mu=0.25"),
    ],
)  # fmt: skip
def test_what_lanes_of_one_program_share_is_the_rest_of_the_spec(spec: str, spelled: str, rest: str) -> None:
    assert canonical("algorithm", spec, KNOWN) == spelled
    assert shared("algorithm", spec, KNOWN) == rest
    assert canonical("algorithm", spelled, KNOWN) == spelled
    assert lanes_of("algorithm", spelled, KNOWN) == lanes_of("algorithm", spec, KNOWN)


def test_lanes_in_listings_and_when_extended() -> None:
    assert signature("fedprox", fedprox) == "fedprox:weighting=uniform,mu=0.01,passes=0"
    assert extended("algorithm", "fedprox:passes=1", KNOWN, "mu", 0.5) == "fedprox:mu=0.5,passes=1"


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("fedprox:mu=-1", "algorithm: fedprox:mu=-1; 0 or more is right"),
        ("fedprox:mu=nan", "algorithm: fedprox:mu=nan; 0 or more is right"),
        ("fedprox:mu=inf", "algorithm: fedprox:mu=inf; 0 or more is right"),
        (f"fedprox:mu={10**400}", "algorithm: fedprox:mu=inf; 0 or more is right"),
        ("fedprox:mu=x", "algorithm: fedprox:mu=x is not a number"),
        ("fedprox:mu=true", "algorithm: fedprox:mu=true is not a number"),
        ("adam:beta=1", "algorithm: adam:beta=1; 0 or more and below 1 is right"),
        ("adam:eps=0", "algorithm: adam:eps=0; above 0 is right"),
        ("adam:share=1.5", "algorithm: adam:share=1.5; 0 or more and 1 or less is right"),
        ("adam:free=-inf", "algorithm: adam:free=-inf; a finite number is right"),
    ],
)
def test_lanes_out_of_their_bounds_are_refused_in_one_line(spec: str, line: str) -> None:
    for function in (bind, canonical, shared, lanes_of):
        with pytest.raises(BadInput) as error:
            function("algorithm", spec, KNOWN)
        assert str(error.value) == line


def test_a_word_may_look_like_a_number() -> None:
    assert bind("failures", "plain:who=7", KNOWN)[2] == {"who": "7"}
    assert canonical("failures", "plain:who=3", KNOWN) == "plain"
    assert canonical("failures", "plain:who=3+07", KNOWN) == "plain:who=3+07"


MINE = """from __future__ import annotations

from torch import Tensor

from baton.names import lane

NUMBER = 3


def make(*, mu: Tensor = lane(0.5, above=0), width: int = 2) -> tuple[Tensor, int]:
    return mu, width


def needs_more(x, *, width: int = 2):
    return 1 / 0


def odd(*, width: Unknown = 2):
    return width
"""
BROKEN = {
    "undefined": ("\n\nx = unknown\n", "(NameError: name 'unknown' is not defined in undefined.py, line 3)"),
    "syntax": ("x = 1\ndef make(:\n", "(SyntaxError: invalid syntax (syntax.py, line 2))"),
    "needs": ("\nimport no_such\n", "(ModuleNotFoundError: No module named 'no_such' in needs.py, line 2)"),
    "deep": ("import torch\ntorch.zeros(2).view(3)\n", "in deep.py, line 2)"),
    "leaves": ("import sys\nsys.exit(3)\n", "(SystemExit: 3 in leaves.py, line 2)"),
    "several": ("raise ValueError('one\\ntwo')\n", "(ValueError: one two in several.py, line 1)"),
}  # fmt: skip


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_module.py").write_text(MINE)
    for name, (text, _) in BROKEN.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("mine")
def test_a_users_own_function_has_lanes_too() -> None:
    spec = "my_own_module:make:width=3,mu=1"
    assert lanes_of("algorithm", spec, KNOWN) == {"mu": 1.0}
    assert shared("algorithm", spec, KNOWN) == "my_own_module:make:width=3"
    assert canonical("algorithm", "my_own_module:make:mu=0.5", KNOWN) == "my_own_module:make"
    name, function, given = bind("algorithm", spec, KNOWN)
    mu, width = call("algorithm", name, function, **{**given, "mu": torch.ones(2)})
    assert (mu.tolist(), width) == ([1, 1], 3)


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("my_own_module:make:mu=0", "my_own_module:make:mu=0; above 0 is right"),
        ("my_own_module:mak", "my_own_module has no 'mak'; did you mean 'make'?"),
        ("my_own_module:NUMBER", "'my_own_module:NUMBER' is of type int; a function is right"),
        (
            "my_own_module:odd",
            "'my_own_module:odd' has options that cannot be read (NameError: name 'Unknown' is not defined)",
        ),
        (
            "fedprx:make",
            "'fedprx:make' cannot be imported (ModuleNotFoundError: No module named 'fedprx'); did you mean 'fedprox'?",
        ),
        (
            "baton.zzz:make",
            "'baton.zzz:make' cannot be imported (ModuleNotFoundError: No module named 'baton.zzz'); "
            "known: adam, fedprox, plain",
        ),
    ],
)
def test_what_cannot_be_found_is_refused_in_one_line(spec: str, line: str) -> None:
    with pytest.raises(BadInput) as error:
        bind("algorithm", spec, KNOWN)
    assert str(error.value) == f"algorithm: {line}"


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("module", BROKEN)
def test_a_module_that_fails_says_what_and_where_in_one_line(module: str) -> None:
    with pytest.raises(BadInput) as error:
        bind("algorithm", f"{module}:make", KNOWN)
    line = str(error.value)
    assert line.startswith(f"algorithm: '{module}:make' cannot be imported (")
    assert line.endswith(BROKEN[module][1])
    assert "\n" not in line


@pytest.mark.usefixtures("mine")
def test_a_function_that_fails_says_what_and_where_in_one_line() -> None:
    name, function, given = bind("model", "my_own_module:needs_more", KNOWN)
    with pytest.raises(BadInput, match=r"model: 'my_own_module:needs_more' failed .TypeError: .*missing 1 required"):
        call("model", name, function, **given)
    with pytest.raises(BadInput) as error:
        call("model", name, function, 3, **given)
    line = "model: 'my_own_module:needs_more' failed (ZeroDivisionError: division by zero in my_own_module.py, line 15)"
    assert str(error.value) == line
    with pytest.raises(ZeroDivisionError):
        call("model", "registered", function, 3, **given)
