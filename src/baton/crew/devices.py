"""Several devices of this machine: a process each, which takes chunks from the store's pool as any command does."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import suppress
from queue import Empty, Queue

from baton.crew.device import Orders
from baton.errors import BadInput
from baton.notice import once
from baton.simulate.arithmetic import cores
from baton.store import Chunk
from baton.sweep import Progress, stopping
from baton.sweep.call import Call, Count

POLL_SECONDS = 0.2
TRIES = 5  # deaths of processes, without a round more in between, after which it is given up
VISIBLE = "CUDA_VISIBLE_DEVICES"


def several(name: str) -> list[str]:
    """The devices that `cuda:0,1`, `all` or `cpu,cpu` names; none where this process may use what is named itself."""
    if name in ("auto", "cpu", "cuda"):
        return []
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "all":
        if not count:
            raise BadInput("device: 'all' names every GPU, and none is here; auto or cpu is right")
        return [f"cuda:{i}" for i in range(count)]
    if re.fullmatch(r"cpu(,cpu)+", name):  # several processes share its cores
        return name.split(",")
    match = re.fullmatch(r"cuda:(\d+(?:,\d+)*)", name)
    if not match:
        raise BadInput(f"device: {name!r}; auto, cpu, cuda, cuda:0,1 or all is right")
    numbers = [int(number) for number in match[1].split(",")]
    if wrong := [number for number in numbers if number >= count]:
        there = f"{count} GPU{'s are' if count != 1 else ' is'} here"
        raise BadInput(f"device: {name!r}: there is no cuda:{wrong[0]}; {there}, counted from 0")
    return [f"cuda:{number}" for number in numbers]


def one(name: str) -> str:
    """The kind of device that one process may use of those named."""
    names = several(name)
    return names[0].partition(":")[0] if names else name


def environment(device: str, of: int) -> dict[str, str]:
    """The variables of a device's process: it sees that one GPU, or its part of the cores."""
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return {"OMP_NUM_THREADS": str(max(1, cores() // of))}
    seen = [each for each in os.environ.get(VISIBLE, "").split(",") if each]
    return {VISIBLE: seen[int(number)] if seen else number}


class _Process:
    """A device's process; what it says goes into a queue."""

    def __init__(self, device: str, orders: Orders, variables: dict[str, str], said: "Queue[list[str]]") -> None:
        self.device = device
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "baton.crew.device"],
            env=os.environ | variables,
            stdin=subprocess.PIPE,  # its end tells the process that this one is gone
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,  # a terminal's Ctrl-C goes to this process alone, which passes it on
        )
        self.reader = threading.Thread(target=self._read, args=(said,), daemon=True)
        self.reader.start()
        with suppress(BrokenPipeError):
            assert self.process.stdin
            self.process.stdin.write(json.dumps(orders) + "\n")
            self.process.stdin.flush()

    def _read(self, said: "Queue[list[str]]") -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            with suppress(ValueError):
                said.put(json.loads(line))

    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def end(self) -> None:
        """Once it has ended, or whatever it does."""
        with self.process:
            self.process.kill()
        self.reader.join()


class Devices:
    """Trains chunks of a call on several devices: what `sweep` takes for `by`."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.deaths = 0

    def __call__(self, call: Call, mine: list[Chunk], count: Count) -> Generator[Progress, None, None]:
        """All these chunks; the processes end when none is left that nobody is at."""
        if not mine:
            return
        count.begin(mine)
        said: Queue[list[str]] = Queue()
        running = [
            _Process(name, self._orders(call, mine, number), environment(name, len(self.names)), said)
            for number, name in enumerate(self.names, 1)
        ]
        try:
            with stopping.patient():
                while any(each.runs() for each in running) or not said.empty():
                    stopping.check()
                    with suppress(Empty):
                        yield from self._heard(call, mine, count, said.get(timeout=POLL_SECONDS))
                self._died(running)
        finally:
            with stopping.saving():
                _stop(running)

    def _orders(self, call: Call, mine: list[Chunk], number: int) -> Orders:
        kind = self.names[number - 1].partition(":")[0]
        texts = [text for chunk in mine for text in chunk.laid.settings]
        root, shard = str(call.store.root.resolve()), (number, len(self.names))
        return Orders(texts, root, kind, call.checkpoint, call.precision, call.anyway, shard)

    def _heard(self, call: Call, mine: list[Chunk], count: Count, word: list[str]) -> Generator[Progress, None, None]:
        kind, *rest = word
        if kind == "at":
            self.deaths = 0
            chunk = next((chunk for chunk in mine if chunk.folder.name == rest[0]), None)
            if chunk is not None:
                yield count.told(chunk, min(int(rest[1]), call.wanted[chunk.laid.runs[0]].rounds))
        elif kind == "said":
            once(rest[0].removeprefix("baton: "))
        else:
            raise BadInput(rest[0])

    def _died(self, running: list[_Process]) -> None:
        """Those that did not end by themselves; whoever looks for chunks next goes on from their checkpoints."""
        for each in running:
            if code := each.process.returncode:
                self.deaths += 1
                why = f"signal {-code}" if code < 0 else f"code {code}"
                once(f"device: the process of {each.device} ended early ({why}); others go on from its checkpoints")
                if self.deaths >= TRIES:
                    raise BadInput(f"device: {TRIES} processes ended without a round trained; the last with {why}")


def _stop(running: list[_Process]) -> None:
    """Ask those that still run to stop, as often as this process was asked; wait until they have saved."""
    passed = 0
    while left := [each for each in running if each.runs()]:
        while passed < max(1, min(2, stopping.asked())):
            passed += 1
            for each in left:
                with suppress(ProcessLookupError):
                    os.kill(each.process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            left[0].process.wait(POLL_SECONDS)
    for each in running:
        each.end()
