"""The process at a site that trains: frames in by its standard input, frames out by its standard output.

It is apart from the one that talks to the server, so that what happens here, memory that runs out or a crash in a
library, is an answer there and not the end of the site.
"""

import os
import queue
import sys
import threading
from contextlib import suppress
from pathlib import Path

from baton.deploy.pipes import taken, write


def main() -> None:
    """Until its input ends; then at once, whatever it is doing: who started it is gone."""
    import torch

    from baton.deploy.place import Place

    waiting: queue.Queue[bytearray] = queue.Queue()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed goes to the site's log
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")  # where memory runs out, this is what goes

    def listen() -> None:
        source = os.fdopen(os.dup(0), "rb")
        while True:
            frame = taken(source)
            if frame is None:
                os._exit(0)
            waiting.put(frame)

    torch.set_num_threads(1)
    site = Place.read(Path(sys.argv[1])).site()
    threading.Thread(target=listen, daemon=True).start()
    write(out, b"ready")
    while True:
        write(out, site.handle(waiting.get()))


if __name__ == "__main__":
    main()
