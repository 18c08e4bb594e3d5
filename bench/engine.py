"""FLARE alone: weights to a site and back, nothing of Baton's in between; bench/hops.py runs it beside its own legs."""

import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from nvflare.collab import collab

HOPS = 8  # the first two warm up
RESULT = "engine.json"


class Echo:
    """At a site: what comes goes back."""

    def _echo(self, x: Any) -> Any:
        return x

    echo = collab.publish(_echo)


class Hops:
    """At the server: seconds a hop, by size and form, into a file."""

    def __init__(self, folder: str, sizes: dict[str, int]) -> None:
        """sizes: bytes, by name."""
        self.folder, self.sizes = Path(folder), sizes

    def _run(self) -> None:
        sites, found = list(collab.clients), {}
        for name, size in self.sizes.items():
            forms = {"bytes": np.random.default_rng(1).bytes(size), "array": np.zeros(size // 4, np.float32)}
            for form, x in forms.items():
                took = []
                for i in range(HOPS):
                    began = time.perf_counter()
                    sites[i % len(sites)](timeout=120).echo(x=x)
                    took.append(time.perf_counter() - began)
                found[f"{name}, {form}"] = [statistics.median(took[2:]), min(took[2:]), max(took[2:])]
        (self.folder / RESULT).write_text(json.dumps(found))

    run = collab.main(_run)
