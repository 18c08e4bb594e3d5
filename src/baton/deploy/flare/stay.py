"""A site that stays: its process is begun again whenever it dies, until somebody ends it."""

import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import baton
from baton import privacy, regular
from baton.deploy import policy, rows
from baton.deploy.book import Lock
from baton.deploy.flare import kits, processes, reach
from baton.deploy.place import Place
from baton.deploy.policy import SPLIT, Policy
from baton.deploy.record import Record, outside
from baton.deploy.releases import Releases
from baton.deploy.site import Samples
from baton.errors import BadInput
from baton.store import files

PID = "site.pid"
LEAST, MOST = 1.0, 30.0  # seconds before a process that died is begun again: longer each time


class Kit(NamedTuple):
    """A site's startup kit."""

    folder: Path
    federation: str
    site: str
    org: str
    columns: dict[str, Any] | None
    server: str  # name:port
    baton: str = ""  # the version it was made by


def read(folder: Path) -> Kit:
    """Checked."""
    try:
        told = json.loads(regular.read(folder / "local" / "baton.json", 1 << 20))
        client = json.loads(regular.read(folder / "startup" / "fed_client.json", 1 << 20))
        server = client["servers"][0]["service"]["target"]
        known = told["federation"], told["site"], told["org"], told["data"], server, str(told.get("baton", ""))
        return Kit(folder.resolve(), *known)
    except (OSError, BadInput):
        raise BadInput(
            f"kit: {str(folder)!r} is no kit of a site; the folder that its server's people sent is"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise BadInput(f"kit: {str(folder)!r} is damaged") from None


def place(kit: Kit, data: Path, label: str, rules: Path | None) -> tuple[Place, Samples, Policy]:
    """Where the site's things are; its samples and its policy are read once, so that what is wrong is told now."""
    chosen = (rules or kit.folder / "local" / "policy.toml").resolve()
    found = policy.read(chosen)
    if found.most_epsilon:
        privacy.needed()
    samples = rows.samples(data, kit.columns, label)
    least = max(found.least_samples, found.least_rows)
    if len(samples.y) < least:
        raise BadInput(f"data: {data}: {len(samples.y)} rows to train on; its policy asks for {least}")
    kept, log = kit.folder / "kept", kit.folder / "site.log"
    Releases(kept).check()
    here = Place(kit.site, str(data.resolve()), label, str(chosen), str(kept), str(log), kit.columns)
    return here, samples, found


def shared(kit: Kit, samples: Samples, found: Policy) -> list[str]:
    """What leaves the site, for people."""
    noise = f", with noise of {found.noise:.0%}" if found.noise else ""
    apart = ", outside epsilon" if found.bounded else ""
    count = f"how many samples it trains on ({len(samples.y)}){noise}{apart}"
    return [
        f"site {kit.site} of the federation {kit.federation}, to {kit.server} and to nobody else:",
        f"- the model after each of its legs: numbers that depend on its samples{_hidden(kit, found)}",
        f"- {count if found.tells_sizes else 'not how many samples it has'}",
        f"- {_costs(kit, found, noise)}",
        *_split(found),
        *_methods(found),
        f"never: {'' if _open_to_rows(found) else 'rows, '}names of files, texts of errors, logs",
    ]


def _costs(kit: Kit, found: Policy, noise: str) -> str:
    """What is told of models on the site's own samples."""
    if not found.tells_metrics:
        return "no loss, no accuracy"
    costs = f"loss, accuracy and the run's metrics of models on its own samples{noise}"
    if not found.bounded:
        return costs
    kept = kit.folder / "kept"
    so_far = outside(Record(kept, Lock(kept)).count, exact=not found.noise)
    return f"{costs}: {so_far}, so far; at most one evaluation a round that a run evaluates"


def _split(found: Policy) -> list[str]:
    """What the methods show that cut the model."""
    names = [] if found.bounded else [name for name in SPLIT if name in found.algorithms]
    if not names:
        return []
    what = "a layer's outputs for single samples, and their labels where the run has no head"
    return [
        f"- in split learning ({', '.join(names)}): {what}; the server chooses that layer, so these can be the rows"
    ]


def _methods(found: Policy) -> list[str]:
    """Which are allowed, and what they may reveal: two lines."""
    names = ", ".join(found.algorithms) or f"all that send whole models (not {', '.join(SPLIT)})"
    size = f"at most {found.most_steps} local steps a leg, on at least {found.least_rows} different training rows"
    noise = "noise: on every leg; a run without it is refused"
    return [
        f"methods: {names}; models: {', '.join(found.models) or 'all that Baton has'}; {size}",
        noise if found.bounded else "no noise: a server that chooses the model may learn single rows",
    ]


def _open_to_rows(found: Policy) -> bool:
    """Whether anything leaves without noise that single rows could be worked out from."""
    return not found.bounded or found.tells_metrics


def _hidden(kit: Kit, found: Policy) -> str:
    """What the policy asks of the noise on them."""
    if not found.least_noise and not found.most_epsilon:
        return ""
    said = [f"noise of at least {found.least_noise:g} clips"] if found.least_noise else []
    if found.most_epsilon:
        so_far = privacy.epsilon(Releases(kit.folder / "kept").losses(), found.delta)
        said.append(f"epsilon at most {found.most_epsilon:g} at delta {found.delta:g}, of which {so_far:.3g} is spent")
    return f", with {', '.join(said)}"


def stay(kit: Kit, here: Place, say: Callable[[str], None]) -> None:
    """Until SIGINT, SIGTERM or SIGHUP."""
    kits.needed()
    small = kit.folder / "local" / "site.json"
    here.write(small)
    over = threading.Event()

    def heard(number: int, frame: FrameType | None) -> None:
        del number, frame
        over.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, heard)
    if kit.baton not in ("", baton.__version__):
        what = f"version: this is Baton {baton.__version__}, and the kit was made by {kit.baton}"
        say(f"{what}; the server refuses a site of another version than its own")
    pause, child, log = LEAST, None, kit.folder / "flare.log"
    probe = kit.folder / "startup", kit.server, say, over
    threading.Thread(target=reach.report, args=probe, daemon=True).start()
    try:
        while not over.is_set():
            began, start = time.monotonic(), log.stat().st_size if log.exists() else 0
            child = processes.site(kit.folder, kit.site, kit.org, small, log)
            files.write(kit.folder / PID, str(child.pid).encode())
            say(f"site {kit.site} is up, and calls {kit.server}; Ctrl-C ends it")
            while child.poll() is None and not over.wait(0.2):
                pass
            processes.end(child.pid)
            if reach.rejected(log, start):  # trying again would cut the other one's line each time
                raise BadInput(
                    f"kit: the server refuses {kit.site}: another copy of this kit is connected under its name; end "
                    "that one, and start this one half a minute later; if it is none of yours, tell the server's people"
                )
            if not over.is_set():
                pause = LEAST if time.monotonic() - began > MOST else min(MOST, 2 * pause)
                say(f"its process ended; again in {pause:g} s")
                over.wait(pause)
    finally:
        if child is not None:
            processes.end(child.pid)
        (kit.folder / PID).unlink(missing_ok=True)
