"""Four hospitals on one machine: real processes, mutual TLS, one of them killed on the way."""

import csv
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np

from baton.deploy import plan
from baton.deploy.flare import kits, processes, stay
from baton.deploy.flare.supervise import Say, Supervisor, stop
from baton.deploy.plan import Plan
from baton.deploy.served import STATUS, read

SITES = ("north", "east", "south", "west")
SHARES = (0.55, 0.25, 0.15, 0.05)  # of all patients: very unequal
ALGORITHMS = ["sequential", "parallel:weighting=size"]
KILLED = "east"


def table() -> tuple[list[str], "np.ndarray", "np.ndarray"]:
    """scikit-learn's breast cancer data: (names of its 30 features, rows, labels)."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    return [str(name).replace(" ", "_") for name in bunch.feature_names], bunch.data, bunch.target


def dealt(values: "np.ndarray") -> list["np.ndarray"]:
    """Rows of each hospital: by the size of the tumour and by chance, so that no two have the same patients."""
    chance = np.random.default_rng(1).normal(size=len(values))
    order = np.argsort(values[:, 0] / values[:, 0].std() + 1.5 * chance)
    ends = np.cumsum([0, *(round(share * len(values)) for share in SHARES)])
    return [np.sort(order[a:b]) for a, b in pairwise(ends)]


def write(folder: Path) -> dict[str, Path]:
    """A CSV file a hospital."""
    names, values, labels = table()
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for site, rows in zip(SITES, dealt(values), strict=True):
        found[site] = folder / f"{site}.csv"
        with open(found[site], "w", newline="") as file:
            out = csv.writer(file)
            out.writerow([*names, "benign"])
            out.writerows([*map(repr, map(float, values[i])), int(labels[i])] for i in rows)
    return found


def planned(rounds: int, port: int) -> Plan:
    """The federation, with its two runs."""
    names, values, _ = table()
    data = {
        "features": names,
        "label": "benign",
        "classes": ["0", "1"],
        "mean": [float(x) for x in values.mean(0)],
        "scale": [float(x) for x in values.std(0)],
    }
    run = {"model": "logistic", "algorithm": ALGORITHMS, "local_steps": 10, "batch_size": 16, "lr": 0.05}
    return plan.parse(
        {
            "federation": {"name": "hospitals", "server": "localhost", "port": port},
            "sites": [{"name": name} for name in SITES],
            "data": data,
            "run": {**run, "rounds": rounds, "eval_every": 1, "seed": 1},
            "lost": {"wait": 120.0},
            "times": {"leg": 20.0, "ping": 3.0},
            "checks": {"norm": 50.0},
        }
    )


def run(out: Path, rounds: int, say: Say) -> Plan:
    """Both runs; its processes end whatever happens."""
    kits.needed()
    files, folder = write(out / "data"), out / "hospitals"
    port = plan.load(folder).port if (folder / "plan.json").exists() else _free()
    found = planned(rounds, port)
    kits.provision(found, folder)
    say(f"certificates for {', '.join(SITES)} in {folder / 'kits'}")
    sites: list[subprocess.Popen[bytes]] = []
    try:
        sites = [_site(folder / "kits" / name, files[name], out / f"{name}.log") for name in SITES]
        found.save(folder)
        say(f"{' and '.join(ALGORITHMS)}: {rounds} rounds each over {len(SITES)} hospitals")
        _train(folder, say)
        return found
    finally:
        stop(folder)
        for each in sites:
            each.terminate()
        for each in sites:
            with suppress(subprocess.TimeoutExpired):
                each.wait(15)
            each.kill()
        for name in SITES:
            with suppress(OSError, ValueError):
                processes.end(int((folder / "kits" / name / stay.PID).read_text()), 0.0)


def _train(folder: Path, say: Say) -> None:
    def killer() -> None:
        while int(read(folder / STATUS).get("round", 0)) < 3:
            time.sleep(0.05)
        with suppress(OSError, ValueError):
            os.killpg(int((folder / "kits" / KILLED / stay.PID).read_text()), signal.SIGKILL)
            say(f"{KILLED} is killed (kill -9); its 'baton site start' begins it again, and the chain waits for it")

    (folder / STATUS).unlink(missing_ok=True)
    threading.Thread(target=killer, daemon=True).start()
    supervisor = Supervisor(folder, say)
    try:
        supervisor.run()
    finally:
        supervisor.close()


def _site(kit: Path, data: Path, log: Path) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-m", "baton", "site", "start", str(kit), "--data", str(data), "--yes"]
    with open(log, "ab") as out:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)


def _free() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
