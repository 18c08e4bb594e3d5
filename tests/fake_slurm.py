"""A scheduler as far as docs/slurm.sbatch needs one: an array of jobs, a time limit told by a signal, a queue.

`scontrol requeue JOB` is a script on the PATH that puts a file into a folder; the job is then started again.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import processes


def run(
    script: Path, folder: Path, size: int, variables: dict[str, str], up: Callable[[], object], times: int
) -> list[int]:
    """The exit codes of all jobs, in the order they ended; so many are told that time is up, once it is."""
    text = script.read_text()
    asks = re.search(r"#SBATCH --signal=B:TERM@\d+", text)  # the batch shell alone, as this does
    assert asks, "the script does not ask to be told"
    assert re.search(r"#SBATCH --requeue", text)
    bin, queue = folder / "bin", folder / "queue"
    bin.mkdir()
    queue.mkdir()
    (bin / "scontrol").write_text(f'#!/bin/sh\n[ "$1" = requeue ] && touch "{queue}/$2"\n')
    (bin / "scontrol").chmod(0o755)
    codes: list[int] = []
    told: set[int] = set()
    waiting, running = list(range(1, size + 1)), dict[int, "subprocess.Popen[bytes]"]()
    try:
        while waiting or running:
            while waiting:
                job = waiting.pop(0)
                own = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(job), "SLURM_ARRAY_TASK_COUNT": str(size)}
                path = {"PATH": f"{bin}:{os.environ['PATH']}"}
                process = subprocess.Popen(["bash", script], env=os.environ | variables | own | path, process_group=0)
                running[job] = process
            for job, process in list(running.items()):
                if job not in told and len(told) < times and process.poll() is None and up():
                    told.add(job)
                    os.kill(process.pid, signal.SIGTERM)
                if process.poll() is not None:
                    codes.append(process.returncode)
                    del running[job]
                    mark = queue / f"7_{job}"
                    if mark.exists():
                        mark.unlink()
                        waiting.append(job)
            time.sleep(0.02)
    finally:
        for process in running.values():
            processes.end(process.pid)
            process.wait()
    return codes
