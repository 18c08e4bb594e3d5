"""`baton constants`: the assumptions' constants of a problem. `baton drift`: how far local steps go astray."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli import flags
from baton.cli.common import DataDir, Device, Hush, Json, Memory, app, print_json, use_data_dir
from baton.errors import BadInput, nearest
from baton.shown import print

if TYPE_CHECKING:
    from baton.constants import Constant, Measured
    from baton.measure.drift import Drift
    from baton.setting import Setting
    from baton.theory import Drift as Lemma

PROBLEM = ("dataset", "partition", "model", "clients", "batch_size", "sampling", "weight_decay")
DRAWS = 64  # of a round, to estimate its drift
OBJECTIVE = "F = mean of F_m over clients; F_m = mean loss of client m's samples + (weight_decay / 2) |x|^2"


@app.command()
@flags.listing_no("failures", "on_failure", "eval_every")
def constants(
    fields: dict[str, Any],
    study: Annotated[
        str | None, typer.Option("--study", metavar="STUDY.toml", help="The problems of a study instead.")
    ] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="NAME", help="One group of the study [all].")] = None,
    only: Annotated[
        str,
        typer.Option(
            "--only", metavar="NAMES", help="Some of L, mu, sigma2, zeta_star2, beta2, zeta2, delta, D, A [all]."
        ),
    ] = "",
    clients_sampled: Annotated[
        int | None,
        typer.Option(
            "--clients-sampled", metavar="N", help="Clients looked at one by one, at most [20; large: 4 for Hessians]."
        ),
    ] = None,
    points: Annotated[
        int | None, typer.Option("--points", metavar="N", help="Points of the run for local values [4; large: 2].")
    ] = None,
    trajectory: Annotated[
        int | None, typer.Option("--trajectory", metavar="N", help="Its rounds, from the first [20; large: 4].")
    ] = None,
    samples: Annotated[
        str,
        typer.Option(
            "--samples", metavar="N|all", help="Of a network, in float32 where not all of them [all; large: 2,000 on]."
        ),
    ] = "",
    data_dir: DataDir = None,
    device: Device = "auto",
    memory: Memory = None,
    quiet: Hush = False,
    as_json: Json = False,
) -> None:
    """L, mu, sigma, zeta, beta, delta, D and A of a setting's problem, each with its kind and how sure it is.

    A name with _local holds at points of a short run; the others hold for every x. Clipping is left out of account.
    A network is large where all of its samples would take hours: then samples of it are looked at, and it says so.
    """
    use_data_dir(data_dir)
    from baton.constants import measure
    from baton.simulate import memory as mem
    from baton.simulate.arithmetic import arithmetic, device_of
    from baton.sweep.progress import telling

    names = [name.strip() for name in only.split(",") if name.strip()]
    hushed, found = quiet or as_json, []
    amount, room = _samples(samples), mem.parse(memory) if memory else None

    def say(line: str) -> None:
        if not hushed:
            typer.echo(f"baton: {line}", err=True)

    try:
        with arithmetic("fp32"), telling(hushed) as tell:
            for setting in _settings(fields, study, group):
                how = names, clients_sampled, points, trajectory
                on = device_of(device)
                found.append(measure(setting, on, *how, tell=tell, samples=amount, memory=room, say=say))
    except KeyboardInterrupt:
        typer.echo("baton: stopped; constants are not stored, so nothing is left of it", err=True)
        raise SystemExit(130) from None
    if as_json:
        print_json([_as_dict(each) for each in found] if study else _as_dict(found[0]))
    else:
        print(OBJECTIVE)
        for each in found:
            _print(each)


def _samples(text: str) -> int | None:
    """0: all of them; None: whatever the problem's size allows."""
    if text in ("", "all"):
        return 0 if text else None
    number = text.replace("_", "")
    if not number.isdecimal() or int(number) < 1:
        raise BadInput(f"samples: {text!r}; a number from 1 on, or all, is right")
    return int(number)


def _settings(fields: dict[str, Any], study: str | None, group: str | None) -> "list[Setting]":
    """The setting of the flags; or the problems of a study, the first setting of each standing for it."""
    given = flags.given(fields)
    if not study:
        if group:
            raise BadInput(f"group: {group!r} of which study? --study STUDY --group {group!r} is right")
        return [flags.setting(fields)]
    if given:
        raise BadInput(f"study: a study gives its own settings, so --study goes without {', '.join(given)}")
    from baton import study as studies

    groups = studies.read(study).groups
    if group and group not in groups:
        raise BadInput(f"group: no {group!r} in {study}; {nearest(group, groups)}")
    settings = [s for name, some in groups.items() if group in (None, name) for s in some]
    first: dict[tuple[Any, ...], Setting] = {}
    for s in settings:
        first.setdefault(tuple(getattr(s, field) for field in PROBLEM), s)
    return list(first.values())


def _as_dict(found: "Measured") -> dict[str, Any]:
    return {
        "setting": found.setting.model_dump(),
        "problem": found.problem,
        "objective": OBJECTIVE,
        "clients_measured": found.clients,
        "sampled": found.sampled,
        "constants": {name: constant._asdict() for name, constant in found.constants.items()},
        "points": [point._asdict() for point in found.points],
    }


def _print(found: "Measured") -> None:
    s = found.setting
    print(f"\n{s.dataset}, {s.partition}, {s.model}: {found.problem}, M = {s.clients}, b = {s.batch_size}, ", end="")
    print(f"weight_decay = {s.weight_decay:g}")
    if found.points:
        print(f"local values: {s.algorithm}, lr = {s.lr:g}, at " + ", ".join(point.where for point in found.points))
    if found.sampled:
        print(f"samples: {found.sampled}")
    print(f"{'':17} {'value':>11}  {'kind':14}  interval or standard error")
    for name, constant in found.constants.items():
        value = "none" if constant.value is None else f"{constant.value:.5g}"
        parts = filter(None, (_sure(constant), constant.note))
        print(f"{name:17} {value:>11}  {constant.kind:14}  {'; '.join(parts)}".rstrip())


def _sure(c: "Constant") -> str:
    parts = [f"+- {c.error:.2g}"] if c.error is not None else []
    if c.low is not None and c.high is not None:
        digits = next((d for d in range(5, 13) if f"{c.low:.{d}g}" != f"{c.high:.{d}g}"), 0)
        parts.append(f"[{c.low:.{digits}g}, {c.high:.{digits}g}]" if digits else "to 12 digits")
    return ", ".join(parts)


@app.command()
@flags.listing_no("eval_every")
def drift(
    fields: dict[str, Any],
    at: Annotated[
        str, typer.Option("--at", metavar="ROUNDS", help="Rounds to look at, e.g. 0,1,10 [0,1,2,5,10,20,... to R].")
    ] = "",
    draws: Annotated[int, typer.Option("--draws", metavar="N", help="Rounds drawn from each point.")] = DRAWS,
    bound: Annotated[bool, typer.Option("--bound", help="Set the paper's lemmas beside it.")] = False,
    data_dir: DataDir = None,
    device: Device = "auto",
    memory: Memory = None,
    quiet: Hush = False,
    as_json: Json = False,
) -> None:
    """Client drift: the sum over a round's S legs and K steps of E|x_mk - x_r|^2, at rounds of a run.

    The run is trained up to there; nothing is stored. Each round is then drawn many times from the same x_r.
    """
    use_data_dir(data_dir)
    setting = flags.setting(fields)
    found, lemmas = drift_of(setting, at, draws, bound, device, memory, quiet or as_json)
    if as_json:
        print_json({"setting": setting.model_dump(), "draws": draws, "rounds": _drifts(found, lemmas)})
    else:
        print_drift(setting, found, lemmas, draws)


def drift_of(
    setting: "Setting", at: str, draws: int, bound: bool, device: str, memory: str | None, quiet: bool
) -> "tuple[list[Drift], list[Lemma]]":
    """The drift of these rounds, and what the lemmas say of them if that is wanted."""
    from baton.measure import drift as drifts
    from baton.simulate import memory as mem
    from baton.simulate.arithmetic import arithmetic, device_of
    from baton.sweep.progress import telling

    wanted, on = _rounds(at, setting.rounds), device_of(device)
    with arithmetic("fp32"), telling(quiet) as tell:
        found = drifts.measure(setting, wanted, on, draws, mem.parse(memory) if memory else None, tell)
        lemmas = drifts.bounds(setting, found, on, tell) if bound else []
    if len(found) < len(set(wanted)) and not quiet:
        typer.echo(f"baton: the run diverges before round {sorted(set(wanted))[len(found)]}", err=True)
    return [drift for drift, _ in found], lemmas


def _rounds(text: str, rounds: int) -> list[int]:
    if not text:
        return [r for r in (0, *(n * 10**e for e in range(10) for n in (1, 2, 5))) if r < rounds]
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise BadInput(f"at: {text!r}; rounds such as 0,1,10 are right") from None


def _drifts(found: "list[Drift]", lemmas: "list[Lemma]") -> list[dict[str, Any]]:
    rows = [drift._asdict() for drift in found]
    for row, lemma in zip(rows, lemmas, strict=False):
        row["bound"] = {"total": lemma.total, **lemma.terms, "valid": bool(lemma.valid), "reasons": list(lemma.reasons)}
    return rows


def print_drift(setting: "Setting", found: "list[Drift]", lemmas: "list[Lemma]", draws: int) -> None:
    """A line a round."""
    s = setting
    print(f"{s.algorithm}, {s.dataset}, {s.partition}, {s.model}: S = {s.participants} of M = {s.clients}, ", end="")
    print(f"{s.length}, lr = {s.lr:g}; {draws} draws a round")
    print(
        f"{'round':>6} {'drift':>12} {'+-':>9} {'drift / S':>12} {'own draw':>12}"
        + (f" {'bound':>12}" if lemmas else "")
    )
    for place, d in enumerate(found):
        error = "" if d.error is None else f"{d.error:.1e}"
        line = f"{d.round:6,} {d.total:12.5g} {error:>9} {d.total / s.participants:12.5g} {d.own:12.5g}"
        print(line + (f" {lemmas[place].total:12.5g}" if lemmas else ""))
    for reason in dict.fromkeys(reason for lemma in lemmas for reason in lemma.reasons):
        print(f"the lemma does not hold here: {reason}")
