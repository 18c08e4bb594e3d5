"""`baton ledger`: what would cross the network, before anything is trained."""

from typing import TYPE_CHECKING, Any

from baton.cli import flags
from baton.cli.common import DataDir, Json, app, print_json, use_data_dir
from baton.shown import print

if TYPE_CHECKING:
    from baton.setting import Setting
    from baton.simulate.books import Account

WAYS = ("up", "down", "peer")


@app.command()
@flags.listing_no("lr", "clip", "weight_decay", "momentum", "lr_schedule", "eval_every")
def ledger(
    fields: dict[str, Any],
    client_flops: flags.ClientFlops = 5e9,
    server_flops: flags.ServerFlops = 1e12,
    up: flags.Up = 10.0,
    down: flags.Down = 50.0,
    latency: flags.Latency = 0.03,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Bytes that cross the network, and modelled seconds: of all ways of training, at every cut; with -a one in detail.

    Nothing is trained. Rounds are those of the run, with its participants and their samples.
    """
    rates = flags.rates(dict(locals()))
    use_data_dir(data_dir)
    setting, algorithm = flags.setting(fields), fields["algorithm"]

    from baton.ledger import seconds

    found = _accounts(setting, [algorithm] if algorithm else [])
    took = {spec: seconds(own.way, rates) for spec, own in found.items()}
    if as_json:
        shown: dict[str, Any] = {
            s: {**_parts(own, setting.rounds), "seconds_a_round": took[s]} for s, own in found.items()
        }
        if _inferred(setting.algorithm) and algorithm:
            shown[setting.algorithm]["upper_bound"] = True
        print_json({"setting": setting.model_dump(), "rates": rates._asdict(), "algorithms": shown})
        return
    s = setting
    print(
        f"{s.model} on {s.dataset}, {s.partition}: S = {s.participants} of M = {s.clients}, {s.length}, ",
        end="",
    )
    print(f"b = {s.batch_size}, {s.rounds} rounds; legs and rounds are means over them")
    if algorithm:
        _detail(next(iter(found.values())), took[setting.algorithm], setting)
        if _inferred(setting.algorithm):
            print("\nAn upper bound: whole models are booked; Algorithm(round, sends=...) says what is sent of them.")
    else:
        _compare(found, took)


def _inferred(spec: str) -> bool:
    """Return whether the bytes of a user's own algorithm are those of whole models, for want of its word."""
    from baton import algorithms
    from baton.names import path

    return bool(path(spec, algorithms.ALGORITHMS)) and algorithms.build(spec).sends is True


def _accounts(setting: "Setting", specs: list[str]) -> "dict[str, Account]":
    """By algorithm: those named, or all that the model can be trained by, at every cut."""
    import torch

    from baton import algorithms, ledger
    from baton.nn.cut import cuts
    from baton.simulate.books import account
    from baton.simulate.program import Program, sides_of

    program = Program([setting], torch.device("cpu"))
    if specs:
        return {setting.algorithm: account(program, program.terms)}
    both = [f"{name}:cut={cut.name}" for name in ("ssl", "splitfed") for cut in cuts(program.net)]
    built = {spec: algorithms.build(spec, program.net.dtype) for spec in ("sequential", "parallel", *both)}
    return {
        spec: account(program, ledger.terms(each, program.net, sides_of(each, program.net), program.one_lane()))
        for spec, each in built.items()
    }


def _parts(own: "Account", rounds: int) -> dict[str, Any]:
    run = {way: rounds * count for way, count in own.round.items()}
    return {"step": own.step, "leg": own.leg, "round": own.round, "run": run}


def _detail(own: "Account", took: float, setting: "Setting") -> None:
    print(f"\n{setting.algorithm + ', bytes':32}" + "".join(f"{way:>16}" for way in (*WAYS, "seconds")))
    heads = f"a step of {setting.batch_size} samples", "a leg", "a round", f"{setting.rounds} rounds"
    times = None, None, took, took * setting.rounds
    for head, part, time in zip(heads, _parts(own, setting.rounds).values(), times, strict=True):
        cells = [f"{part[way]:,.0f}" for way in WAYS] + [f"{time:,.3g}" if time is not None else ""]
        print(f"{head:32}" + "".join(f"{cell:>16}" for cell in cells).rstrip())


def _compare(found: "dict[str, Account]", took: dict[str, float]) -> None:
    wide = max(len(spec) for spec in found)
    print(f"\n{'bytes a round':{wide}}" + "".join(f"{way:>14}" for way in (*WAYS, "in all")) + f"{'seconds':>12}")
    for spec, own in found.items():
        counts = [own.round[way] for way in WAYS]
        print(f"{spec:{wide}}" + "".join(f"{x:>14,.0f}" for x in (*counts, sum(counts))) + f"{took[spec]:>12.3g}")
