"""One chunk trained away from where it was laid down: what is sent along, told on the way, and brought back.

Where the store's folder is seen, the chunk is trained in it, under a claim that the driver took. Elsewhere it is
trained in a folder of its own, and checkpoints and runs travel.
"""

import _thread
import contextlib
import io
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import torch

from baton.crew import samples
from baton.errors import BadInput
from baton.limits import enough
from baton.setting import Setting
from baton.simulate.arithmetic import How, arithmetic
from baton.store import Chunk, Laid, Store, journal
from baton.store.claims import Claim
from baton.store.workers import Worker, me
from baton.sweep import stopping
from baton.sweep.chunk import Job, carry_out
from baton.sweep.sameness import OtherWay
from baton.usercode import blamed

TELL_SECONDS = 0.5  # between two words to the driver


class Errand(NamedTuple):
    """What is to be trained, and where it belongs."""

    root: str  # the store's folder, as the driver sees it
    token: str  # the driver's: who finds its heartbeat in there sees the store
    name: str  # of the chunk
    number: int  # of the claim on it
    laid: Laid
    checkpoint: float
    anyway: bool
    folder: str  # the driver's working folder, where a user's own code may lie
    variables: dict[str, str]  # BATON_...


class Parcel(NamedTuple):
    """What a chunk goes on from, for those who do not see the store."""

    checkpoint: bytes | None
    runs: dict[str, dict[str, bytes]]  # shorter runs that it begins with


class Word(NamedTuple):
    """How far a chunk is."""

    name: str
    number: int
    round: int
    checkpoint: bytes | None  # a new one, where the store is not seen


class Outcome(NamedTuple):
    """How it ended."""

    kind: str  # done, stopped, lacks (data sets), other (way of computing), bad (input), refused (by the system)
    line: str = ""
    lacks: tuple[samples.Name, ...] = ()
    checkpoint: bytes | None = None
    runs: dict[str, dict[str, bytes]] = {}  # noqa: RUF012 what travels; empty where the store is seen
    journal: tuple[dict[str, object], ...] = ()
    said: str = ""  # lines for people


class Sent(NamedTuple):
    """What was sent along, fetched when it is needed."""

    parcel: Callable[[], Parcel]
    samples: Callable[[samples.Name], samples.Packed | None]
    tell: Callable[[Word], int]  # gives how many times the driver has asked to stop


def carry(errand: Errand, sent: Sent) -> Outcome:
    """Train it, in the main thread of a process that is there for nothing else."""
    os.environ.update(errand.variables)
    with suppress(OSError):
        os.chdir(errand.folder)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        outcome = _told(errand, sent)
    return outcome._replace(said=said.getvalue())


def _told(errand: Errand, sent: Sent) -> Outcome:
    """What goes wrong, as an outcome: the driver says it in one line."""
    here = f" (on {socket.gethostname()})"
    try:
        with stopping.heard(), stopping.patient(), blamed(), enough("memory: too little is free"):
            return _carried(errand, sent)
    except stopping.Stopped:
        return Outcome("stopped")
    except OtherWay as error:
        return Outcome("other", f"{error}{here}")
    except BadInput as error:
        return Outcome("bad", f"{error}{here}")
    except OSError as error:
        return Outcome("refused", f"{error.filename or errand.root}: {error.strerror or error}{here}")


def _carried(errand: Errand, sent: Sent) -> Outcome:
    lanes = [Setting.from_json(text) for text in errand.laid.settings]
    missing = samples.lacking(lanes, sent.samples)
    if missing:
        return Outcome("lacks", lacks=tuple(missing))
    store = Store(errand.root)
    if store.pool.workers.read(errand.token):
        chunk = Chunk(store.pool.folder / errand.name, errand.laid)
        worker = Worker(errand.token, "", 0, "", "")
        job = _job(errand, lanes, store, chunk, worker)._replace(claim=Claim(chunk.folder, errand.number))
        return Outcome("done" if _trained(job, errand, sent.tell, False) else "stopped")
    with _folder() as root:
        return _apart(errand, lanes, Store(root), sent)


def _apart(errand: Errand, lanes: list[Setting], store: Store, sent: Sent) -> Outcome:
    """In a store of its own, which is emptied into what is brought back."""
    parcel, worker = sent.parcel(), me()
    checkpoint = None
    if parcel.checkpoint is not None:
        checkpoint = store.root / "sent"
        checkpoint.write_bytes(parcel.checkpoint)
    store.receive(parcel.runs, worker.token)
    chunk = store.pool.lay(errand.laid, checkpoint)
    ended = _trained(_job(errand, lanes, store, chunk, worker), errand, sent.tell, True)
    runs = {run: store.packed(run) for run in errand.laid.runs if store.complete(run)}
    kept = None if ended else store.pool.packed(chunk)
    return Outcome("done" if ended else "stopped", "", (), kept, runs, tuple(journal.entries(store.root)))


def _job(errand: Errand, lanes: list[Setting], store: Store, chunk: Chunk, worker: Worker) -> Job:
    laid = errand.laid
    how = How(torch.device(laid.device), laid.precision, max(1, laid.threads))
    return Job(chunk, lanes, store, worker, how, errand.checkpoint, errand.anyway)


def _trained(job: Job, errand: Errand, tell: Callable[[Word], int], apart: bool) -> bool:
    """Whether it came to its end; asked to stop, it is saved."""
    at = [0]  # the round
    with _telling(job, errand, tell, apart, at), arithmetic(job.how.precision), closing(carry_out(job)) as running:
        try:
            for snapshot in running:
                at[0] = snapshot.round
                stopping.check()
            return True
        except stopping.Stopped:
            return False
        finally:
            with stopping.saving():
                running.close()


@contextmanager
def _telling(job: Job, errand: Errand, tell: Callable[[Word], int], apart: bool, at: list[int]) -> Iterator[None]:
    """Meanwhile the driver is told how far it is, and heard when it wants this to stop: as a signal would."""
    end, pool = threading.Event(), job.store.pool

    def work() -> None:
        sent, heard = pool.stamp(job.chunk), 0
        while not end.wait(TELL_SECONDS):
            stamp = pool.stamp(job.chunk) if apart else sent
            data = pool.packed(job.chunk) if stamp != sent else None
            try:
                asked = tell(Word(errand.name, errand.number, at[0], data))
                sent = stamp
            except Exception:  # there is no driver any more
                asked = max(1, heard)
            while heard < asked and not end.is_set():
                heard += 1
                _thread.interrupt_main(signal.SIGTERM)

    thread = threading.Thread(target=work, daemon=True, name="telling")
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@contextmanager
def _folder() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="baton-"))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)
