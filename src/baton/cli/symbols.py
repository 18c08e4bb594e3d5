"""The theory's symbols as flags, for every command that takes them; the paper's letters are the flags."""

from typing import Annotated, Any

import typer

from baton import synonyms


def constant(*names: str, help: str, metavar: str = "X", show: bool = True) -> Any:
    """An option."""
    return typer.Option(*names, metavar=metavar, help=help, show_default=show)


CASES = "strongly_convex|convex|nonconvex"

Case = Annotated[str | None, constant("--case", metavar=CASES, help="strongly_convex unless given.", show=False)]
L = Annotated[float, constant("--L", help="Smoothness.")]
Mu = Annotated[float, constant("--mu", help="Strong convexity.")]
Sigma = Annotated[float, constant("--sigma", help="Standard deviation of a stochastic gradient.")]
Zeta = Annotated[float, constant("--zeta", help="Heterogeneity; zeta_* in the convex cases.")]
Beta = Annotated[float, constant("--beta", help="Its growth with the gradient (nonconvex).")]
D = Annotated[float, constant("--D", help="Distance from the first iterate to the optimum (convex).")]
A = Annotated[float, constant("--A", help="F at the first iterate less its infimum (nonconvex).")]
Clients = Annotated[int, constant("--clients", "-M", metavar="N", help="M, all clients.")]
Participants = Annotated[
    int | None,
    constant("--participants", "-S", metavar="N", help="S, clients of one round: all unless given.", show=False),
]
LocalSteps = Annotated[int, constant("--local-steps", "-K", metavar="N", help="K, steps of one leg.")]
Rounds = Annotated[int, constant("--rounds", "-R", metavar="N", help="R, rounds.")]
EtaTilde = Annotated[
    float | None,
    constant("--eta-tilde", help="Effective learning rate: the one with the least bound unless given.", show=False),
]
OVER = "K|R|S|M|zeta"
From = Annotated[float | None, constant("--from", help="Where it begins; a usual range unless given.", show=False)]
To = Annotated[float | None, constant("--to", help="Where it ends.", show=False)]
LETTERS = {"clients": "M", "participants": "S", "local_steps": "K", "rounds": "R"}


def algorithm_name(written: str | None) -> str | None:
    """Return the registered name of a theorem's algorithm, which may be written as the paper writes it."""
    return written and (synonyms.registered("algorithm", written, ("sequential", "parallel")) or written)


def given(words: dict[str, Any]) -> dict[str, Any]:
    """The symbols among a command's arguments."""
    found = {name: words[name] for name in ("L", "mu", "sigma", "zeta", "beta", "D", "A")}
    return found | {letter: words[name] for name, letter in LETTERS.items()}
