"""Messages that follow the reader's own branches: atheris (libFuzzer) over frames and schemas; a part of `make fuzz`.

`python tests/fuzz_guided.py -runs=100000`. Frames are mutated as `fuzz.py` does or as libFuzzer does, whichever
reaches lines that no frame before reached. A fault ends it and leaves the frame in the working folder.
"""

import random
import sys
import tempfile

import atheris

with atheris.instrument_imports(include=["baton.deploy.frames", "baton.deploy.wire", "baton.deploy.messages"]):
    import baton.deploy.wire  # noqa: F401

from fuzz import CORPUS, mutated, read

LARGEST = 8192  # bytes of a frame


def mutate(frame: bytes, most: int, seed: int) -> bytes:
    """Return a changed frame, half of the time one whose table was changed and not its bytes."""
    draw = random.Random(seed)
    changed = mutated(bytes(frame), draw) if draw.random() < 0.5 else atheris.Mutate(frame, most)
    return bytes(changed)[:most]


def main() -> None:
    """Run until the number of runs that the command line gives."""
    with tempfile.TemporaryDirectory() as found:  # what libFuzzer finds of new branches is not kept
        words = [
            sys.argv[0],
            f"-max_len={LARGEST}",
            "-len_control=0",
            "-print_final_stats=1",
            *sys.argv[1:],
            found,
            str(CORPUS),
        ]
        atheris.Setup(words, read, custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
