"""Seconds a hop and a parallel round over real processes with TLS, at 1 MB and 40 MB, and memory a site.

python bench/hops.py [FOLDER]      # needs nvflare; about two minutes
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

from baton.deploy import plan
from baton.deploy.flare import kits, processes
from baton.deploy.flare.supervise import stop
from baton.deploy.place import Place
from baton.store import Store

SITES, HIDDEN, ROUNDS = 4, {"1 MB": 3495, "40 MB": 139_810}, 3


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


def main() -> None:
    """Four runs, one after another."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    folder, pids, port = root / "fed", list[int](), 18_765
    kits.provision(planned("1 MB", "sequential", port), folder)
    try:
        for i in range(SITES):
            kit, data = folder / "kits" / f"site-{i}", root / f"{i}.safetensors"
            save_file({"x": torch.randn(50, 64), "y": torch.arange(50) % 10}, data)
            local = kit / "local"
            rules, kept, log = str(local / "policy.toml"), str(kit / "kept"), str(kit / "site.log")
            Place(f"site-{i}", str(data), "", rules, kept, log, None).write(local / "site.json")
            pids.append(processes.site(kit, f"site-{i}", f"site_{i}", local / "site.json", kit / "flare.log").pid)
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
                legs = f"a leg {min(late):.3f} to {max(late):.3f} s, all {ROUNDS} rounds {seconds:.2f} s"
                print(f"{size} {algorithm}: {legs}, {most} MB a site", flush=True)
    finally:
        stop(folder)
        for pid in pids:
            processes.end(pid, 0.0)


if __name__ == "__main__":
    main()
