"""Which legs do not come back, and what is done then; by name."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from baton.errors import BadInput
from baton.names import behind, bind
from baton.usercode import call, place


class Failing(NamedTuple):
    """A leg does not come back with probability `share`."""

    share: float
    who: tuple[int, ...] = ()  # at these clients only; empty: at any
    real: bool = False  # nothing is drawn: legs are lost as they are lost at real sites


class Policy(NamedTuple):
    """What is done about a leg that did not come back."""

    tries: int = 0  # more of them, after the first
    elsewhere: bool = False  # at another client
    abort: bool = False  # the round goes back to its beginning; otherwise it goes on without the leg


def none() -> Failing:
    """Every leg comes back."""
    return Failing(0.0)


def share(*, p: float) -> Failing:
    """Each leg fails with probability p, wherever it is."""
    return Failing(_probability("share", p))


def clients(*, who: str, p: float = 1.0) -> Failing:
    """Legs at the clients `who`, such as 3+7+11, fail with probability p."""
    digits = who.isascii() and who.replace("+", "0").isdigit()
    numbers = sorted({int(word or 0) for word in who.split("+")}) if digits else []
    if "+".join(map(str, numbers)) != who:  # one spelling, one run
        raise BadInput(f"failures: clients has who={who}; numbers from 0 in rising order, such as 3+7+11, are right")
    return Failing(_probability("clients", p), tuple(numbers))


def real() -> Failing:
    """Legs are lost as it happens, at real sites: what `baton deploy` writes into its runs."""
    return Failing(0.0, real=True)


def skip() -> Policy:
    """The round goes on without it: a chain hands on what was there, an average is over what came."""
    return Policy()


def retry(*, times: int = 2) -> Policy:
    """The same client is asked again, so many times; then the round goes on without it."""
    return Policy(_times("retry", times))


def reroute(*, times: int = 2) -> Policy:
    """Another client is asked, so many times; then the round goes on without it."""
    return Policy(_times("reroute", times), elsewhere=True)


def abort() -> Policy:
    """The round goes back to its beginning: the model is what it was."""
    return Policy(abort=True)


FAILURES: dict[str, Callable[..., Failing]] = {
    "none": none,
    "share": share,
    "clients": clients,
    "real": real,
}
POLICIES: dict[str, Callable[..., Policy]] = {"skip": skip, "retry": retry, "reroute": reroute, "abort": abort}


def failing(spec: str) -> Failing:
    """What a setting's `failures` says; it checks its own options."""
    return _failing(spec, behind("failures", spec, FAILURES))


@cache
def _failing(spec: str, own: Callable[..., Failing] | None) -> Failing:  # noqa: ARG001
    """own: a user's function, which may be another one the next time."""
    name, function, options = bind("failures", spec, FAILURES)
    found = call("failures", name, function, **options)
    if not isinstance(found, Failing):
        raise BadInput(f"failures: {name!r} gives {type(found).__name__}; a Failing is right{place(name, function)}")
    return found


def policy(spec: str) -> Policy:
    """What a setting's `on_failure` says; it checks its own options."""
    return _policy(spec, behind("on_failure", spec, POLICIES))


@cache
def _policy(spec: str, own: Callable[..., Policy] | None) -> Policy:  # noqa: ARG001
    """own: a user's function, which may be another one the next time."""
    name, function, options = bind("on_failure", spec, POLICIES)
    found = call("on_failure", name, function, **options)
    if not isinstance(found, Policy):
        raise BadInput(f"on_failure: {name!r} gives {type(found).__name__}; a Policy is right{place(name, function)}")
    return found


def _probability(name: str, p: float) -> float:
    if not 0 <= p <= 1:
        raise BadInput(f"failures: {name} has p={p:g}; a probability, 0 <= p <= 1, is right")
    return p


def _times(name: str, times: int) -> int:
    if times < 1:
        raise BadInput(f"on_failure: {name} has times={times}; at least 1 is right")
    return times
