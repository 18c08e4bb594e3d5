"""Seconds a hop and a parallel round over real processes with TLS, at 1 MB and 40 MB; FLARE alone; memory a site.

python bench/hops.py [FOLDER]      # needs nvflare; about two minutes
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

from baton.deploy import plan
from baton.deploy.flare import kits, processes
from baton.deploy.flare.supervise import Supervisor, stop
from baton.deploy.place import Place
from baton.store import Store

SITES, HIDDEN, ROUNDS = 4, {"1 MB": 3495, "40 MB": 139_810}, 3
SIZES = {size: hidden * 75 * 4 for size, hidden in HIDDEN.items()}  # bytes: 64 pixels, a bias, 10 classes, a number


def memory(pid: int) -> int:
    """Megabytes of a process and all that it started."""
    found, waiting = 0, [pid]
    while waiting:
        own = waiting.pop()
        try:
            text = Path(f"/proc/{own}/smaps_rollup").read_text()  # pages that several share count in parts
            waiting += [
                int(w) for t in Path(f"/proc/{own}/task").iterdir() for w in (t / "children").read_text().split()
            ]
        except OSError:
            continue
        found += next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
    return found // 1024


def planned(size: str, algorithm: str, port: int) -> plan.Plan:
    """A leg is one step on one sample: what is left is the way there and back."""
    run = {"dataset": "digits", "model": f"mlp:hidden={HIDDEN[size]}", "algorithm": algorithm, "batch_size": 1}
    more = {"local_steps": 1, "rounds": ROUNDS, "eval_every": 100, "lr": 1e-3}
    head = {"name": "hops", "server": "localhost", "port": port}
    sites = [{"name": f"site-{i}"} for i in range(SITES)]
    return plan.parse({"federation": head, "sites": sites, "run": run | more, "times": {"leg": 120, "ping": 5}})


def allowed(kit: Path, app: str) -> None:
    """Let a kit load a class of bench/engine.py too."""
    path = kit / "local" / "resources.json"
    table = json.loads(path.read_text())
    table["class_allow_list"].append(app)
    path.write_text(json.dumps(table))


def engine(folder: Path) -> None:
    """FLARE alone, over the same processes: weights there and back."""
    supervisor, place, result = Supervisor(folder, print), kits.job(folder), folder / "engine.json"
    for side, app, args in (("client", "Echo", {}), ("server", "Hops", {"folder": str(folder), "sizes": SIZES})):
        path = place / "app" / "config" / f"config_fed_{side}.json"
        table = json.loads(path.read_text())
        table["components"] = [{"id": "app", "path": f"engine.{app}", "args": args}]
        path.write_text(json.dumps(table))
    supervisor._serve()
    supervisor._gather()
    number = supervisor._asked(lambda session: session.submit_job(str(place)))
    end = time.monotonic() + 120
    while not result.exists() and time.monotonic() < end:
        time.sleep(0.5)
    supervisor._closed(number)
    supervisor.close()
    for name, (middle, least, most) in json.loads(result.read_text()).items():
        print(f"FLARE alone, {name}: a hop {middle:.3f} s ({least:.3f} to {most:.3f})", flush=True)


def main() -> None:
    """FLARE alone, then four runs, one after another."""
    os.environ["PYTHONPATH"] = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(Path(__file__).parent)])
    root = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    folder, pids, port = root / "fed", list[int](), 18_765
    kits.provision(planned("1 MB", "sequential", port), folder)
    allowed(folder / "kits" / "localhost", "engine.Hops")
    try:
        for i in range(SITES):
            kit, data = folder / "kits" / f"site-{i}", root / f"{i}.safetensors"
            save_file({"x": torch.randn(50, 64), "y": torch.arange(50) % 10}, data)
            local = kit / "local"
            allowed(kit, "engine.Echo")
            (local / "policy.toml").write_text("least_rows = 1\n")
            rules, kept, log = str(local / "policy.toml"), str(kit / "kept"), str(kit / "site.log")
            Place(f"site-{i}", str(data), "", rules, kept, log, None).write(local / "site.json")
            pids.append(processes.site(kit, f"site-{i}", f"site_{i}", local / "site.json", kit / "flare.log").pid)
        planned("1 MB", "sequential", port).save(folder)
        engine(folder)
        for size in HIDDEN:
            for algorithm in ("sequential", "parallel"):
                found = planned(size, algorithm, port)
                found.save(folder)
                words = [sys.executable, "-m", "baton", "deploy", "start", str(folder), "--keep"]
                (folder / "legs.csv").unlink(missing_ok=True)
                with subprocess.Popen(words) as process:
                    most = 0
                    while process.poll() is None:
                        most = max(most, *(memory(pid) for pid in pids))
                        try:
                            process.wait(0.2)
                        except subprocess.TimeoutExpired:
                            continue
                lines = [line.split(",") for line in (folder / "legs.csv").read_text().splitlines()]
                late = [float(words[3]) for words in lines if int(words[1]) > 0]  # the first round warms up
                seconds = Store(folder / "runs").read(found.setting.run_id).metrics["real_seconds"][-1]
                leg = f"a leg {statistics.median(late):.3f} s ({min(late):.3f} to {max(late):.3f})"
                legs = f"{leg}, a round {seconds / ROUNDS:.2f} s"
                print(f"{size} {algorithm}: {legs}, {most} MB a site", flush=True)
    finally:
        stop(folder)
        for pid in pids:
            processes.end(pid, 0.0)


if __name__ == "__main__":
    main()
