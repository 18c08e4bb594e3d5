"""A site that stays: its process is begun again whenever it dies, until somebody ends it."""

import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from baton import privacy, regular
from baton.deploy import policy, rows
from baton.deploy.flare import kits, processes
from baton.deploy.place import Place
from baton.deploy.policy import Policy
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


def read(folder: Path) -> Kit:
    """Checked."""
    try:
        told = json.loads(regular.read(folder / "local" / "baton.json", 1 << 20))
        client = json.loads(regular.read(folder / "startup" / "fed_client.json", 1 << 20))
        server = client["servers"][0]["service"]["target"]
        return Kit(folder.resolve(), told["federation"], told["site"], told["org"], told["data"], server)
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
    if len(samples.y) < found.least_samples:
        raise BadInput(f"data: {data}: {len(samples.y)} rows to train on; its policy asks for {found.least_samples}")
    kept, log = kit.folder / "kept", kit.folder / "site.log"
    here = Place(kit.site, str(data.resolve()), label, str(chosen), str(kept), str(log), kit.columns)
    return here, samples, found


def shared(kit: Kit, samples: Samples, found: Policy) -> list[str]:
    """What leaves the site, for people."""
    noise = f", with noise of {found.noise:.0%}" if found.noise else ""
    sizes = f"how many samples it trains on ({len(samples.y)}){noise}" if found.sizes else "not how many samples it has"
    costs = (
        f"loss, accuracy and the run's metrics of models on its own samples{noise}"
        if found.metrics
        else "no loss, no accuracy"
    )
    names = ", ".join(found.algorithms) or "all that Baton has"
    smashed = not found.algorithms or {"ssl", "splitfed"} & set(found.algorithms)
    return [
        f"site {kit.site} of the federation {kit.federation}, to {kit.server} and to nobody else:",
        f"- the model after each of its legs: numbers that depend on its samples{_hidden(kit, found)}",
        f"- {sizes}",
        f"- {costs}",
        *(["- in split learning (ssl, splitfed): a layer's outputs for its samples, and their labels"] * bool(smashed)),
        f"algorithms: {names}; models: {', '.join(found.models) or 'all that Baton has'}; "
        f"at most {found.most_steps} local steps a leg",
        "never: rows, names of files, texts of errors, logs",
    ]


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
    pause, child = LEAST, None
    try:
        while not over.is_set():
            began = time.monotonic()
            child = processes.site(kit.folder, kit.site, kit.org, small, kit.folder / "flare.log")
            files.write(kit.folder / PID, str(child.pid).encode())
            say(f"site {kit.site} is up, and calls {kit.server}; Ctrl-C ends it")
            while child.poll() is None and not over.wait(0.2):
                pass
            processes.end(child.pid)
            if not over.is_set():
                pause = LEAST if time.monotonic() - began > MOST else min(MOST, 2 * pause)
                say(f"its process ended; again in {pause:g} s")
                over.wait(pause)
    finally:
        if child is not None:
            processes.end(child.pid)
        (kit.folder / PID).unlink(missing_ok=True)
