"""A Ray cluster: joined or started, asked what it has, and given errands as tasks.

All words go through one small actor, the post: workers tell it how far they are and hear from it whether to stop. So
nothing of Ray is needed but tasks, an actor and the object store, which a driver outside the cluster has too.
"""

import asyncio
import importlib
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import baton
from baton.crew.errand import Errand, Outcome, Parcel, Sent, Word, carry
from baton.crew.samples import Name, packed
from baton.errors import BadInput
from baton.notice import once
from baton.simulate.arithmetic import cores
from baton.store import Laid

PROCESS = 500 << 20  # bytes that a worker takes before it trains: Python, torch, Ray
OBJECTS = 256 << 20  # bytes of a started cluster's object store, beside the data sets
TOKEN = (
    "on: the cluster {address!r} lets in only those with its token, and ours is missing or another one; "
    "RAY_AUTH_MODE=token with RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, as its machines have, is right"
)
HEAD = "node:__internal_head__"  # a resource that Ray gives the first machine of a cluster
PROBE_SECONDS = 60.0  # that a machine has to tell which Baton it has: its first worker is started for it
WORD_SECONDS = 30.0  # after which a worker takes the driver for gone


class Ended(NamedTuple):
    """An errand came to its end; outcome None: its worker or machine did, for this reason."""

    name: str
    outcome: Outcome | None
    why: str = ""


class Post:
    """What workers and driver know of each other."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.asked = 0

    async def tell(self, word: Word) -> int:
        """From a worker; how many times the driver has asked to stop."""
        self.words.append(word)
        return self.asked

    async def collect(self, asked: int, seconds: float) -> list[Word]:
        """For the driver: all words since it last asked; waits so long for one."""
        self.asked = max(self.asked, asked)
        if not self.words:
            await asyncio.sleep(seconds)
        found, self.words = self.words, []
        return found


def _errand(errand: Errand, post: Any, parcel: list[Any], given: dict[Name, list[Any]]) -> Outcome:
    """In a worker. What is in a list is fetched only by those who need it."""
    import ray

    def samples(name: Name) -> Any:
        return ray.get(given[name][0]) if name in given else None

    def tell(word: Word) -> int:
        return int(ray.get(post.tell.remote(word), timeout=WORD_SECONDS))

    return carry(errand, Sent(lambda: ray.get(parcel[0]) if parcel else Parcel(None, {}), samples, tell))


def _probe() -> Callable[[], str]:
    """Return a function that tells which Baton a machine has.

    It is sent as it stands here, since it is not at the top of a module: a machine may have no Baton to look it up in.
    """

    def version() -> str:
        try:
            import baton
        except ImportError:
            return ""
        return str(baton.__version__)

    return version


class Node(NamedTuple):
    """What a machine of the cluster has."""

    cpus: float
    gpus: float
    memory: int  # bytes


class Cluster:
    """A cluster that this process drives."""

    def __init__(self) -> None:
        import ray

        self.ray: Any = ray
        self._checked: set[str] = set()  # machines that have our Baton
        self._check_machines()  # the head too: the post is there
        self.tasks: dict[Any, str] = {}  # reference -> chunk
        self.given: dict[Name, list[Any]] = {}  # data sets in the object store
        self.asked = 0
        head = {HEAD: 0.001}  # where it dies with the cluster, and not with some machine
        self.post = ray.remote(num_cpus=0, resources=head, max_concurrency=10_000)(Post).remote()
        self._run = ray.remote(max_retries=0)(_errand)

    def nodes(self) -> list[Node]:
        """Those that live."""
        self._check_machines()
        found = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return [Node(has.get("CPU", 0.0), has.get("GPU", 0.0), int(has.get("memory", 0))) for has in found]

    def _check_machines(self) -> None:
        """Raise BadInput if one has another Baton, or none: it would train something else into the same study."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

        new = [node for node in self.ray.nodes() if node["Alive"] and node["NodeID"] not in self._checked]
        asked = self.ray.remote(num_cpus=0, max_retries=0)(_probe())
        tasks = [asked.options(scheduling_strategy=On(node["NodeID"], soft=False)).remote() for node in new]
        for node, task in zip(new, tasks, strict=True):
            try:
                found = self.ray.get(task, timeout=PROBE_SECONDS)
            except self.ray.exceptions.RayError:
                continue  # it died, or is slow to begin: it is asked again
            where, right = f"on: machine {node['NodeManagerAddress']}", f"{baton.__version__}, as here, is right"
            if not found:
                raise BadInput(f"{where}: Baton is not installed there; {right} on every machine, the head too")
            if found != baton.__version__:
                raise BadInput(f"{where}: it has Baton {found}; {right}")
            self._checked.add(node["NodeID"])

    def slots(self, laid: Laid) -> int:
        """How many chunks like this one train at once."""
        if laid.device == "cuda":
            return sum(int(node.gpus / _gpu_share(laid)) for node in self.nodes())
        return sum(int(node.cpus // max(1, laid.threads)) for node in self.nodes())

    def send(self, errand: Errand, parcel: Parcel | None) -> None:
        """Hand a chunk to whoever has room for it."""
        laid, gpu = errand.laid, errand.laid.device == "cuda"
        most = max((self._room(node, laid) for node in self.nodes()), default=0)
        options: dict[str, Any] = {
            "num_cpus": 1 if gpu else max(1, laid.threads),
            "num_gpus": _gpu_share(laid) if gpu else 0,
            "memory": PROCESS if gpu else min(laid.memory + PROCESS, most) or None,
        }
        put = [self.ray.put(parcel)] if parcel else []
        self.tasks[self._run.options(**options).remote(errand, self.post, put, self.given)] = errand.name

    def _room(self, node: Node, laid: Laid) -> int:
        """Bytes that a chunk may ask a node for, such that all its cores can be used."""
        return int(node.memory * max(1, laid.threads) // max(1.0, node.cpus))

    def give(self, names: tuple[Name, ...]) -> None:
        """Put data sets into the object store, from where each machine fetches them once."""
        for name in names:
            if name not in self.given:
                self.given[name] = [self.ray.put(packed(name))]

    def poll(self, seconds: float) -> list[Word | Ended]:
        """What happened; waits so long for anything."""
        try:
            words = self.ray.get(self.post.collect.remote(self.asked, seconds))
        except self.ray.exceptions.RayError:
            raise BadInput(
                "on: the cluster is gone; what was saved is safe, the same command goes on from it"
            ) from None
        ready, _ = self.ray.wait(list(self.tasks), num_returns=len(self.tasks), timeout=0) if self.tasks else ([], [])
        return [*words, *(self._ended(task) for task in ready)]

    def _ended(self, task: Any) -> Ended:
        name, crashes = self.tasks.pop(task), self.ray.exceptions
        try:
            return Ended(name, self.ray.get(task))
        except crashes.RayTaskError:
            raise
        except crashes.RayError as error:
            return Ended(name, None, str(error).strip().splitlines()[0])


def _gpu_share(laid: Laid) -> float:
    return round(min(1.0, max(0.01, laid.share)), 2)


_kept: list[ExitStack] = []  # of `held`, the innermost last
_clusters: dict[str, Cluster] = {}  # joined and held, by address


@contextmanager
def held() -> Iterator[None]:
    """Inside, a cluster stays joined from one grid to the next: a search trains several, one after another."""
    with ExitStack() as stack:
        _kept.append(stack)
        try:
            yield
        finally:
            _kept.pop()


@contextmanager
def joined(address: str) -> Iterator[Cluster]:
    """A cluster, joined for so long, or as long as it is held."""
    if not _kept:
        with _joined(address) as cluster:
            yield cluster
        return
    if address not in _clusters:
        _clusters[address] = _kept[-1].enter_context(_joined(address))
        _kept[-1].callback(_clusters.pop, address)
    yield _clusters[address]


@contextmanager
def _joined(address: str) -> Iterator[Cluster]:
    """A cluster; where there is none, or a new one is wanted, it is started and ended here."""
    try:
        import ray
    except ImportError:
        raise BadInput("on: Ray is not installed; pip install 'baton-fl[ray]' is right") from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    own = {"num_cpus": cores(), "include_dashboard": False, "object_store_memory": OBJECTS}
    common = {"log_to_driver": False, "logging_level": "ERROR", "ignore_reinit_error": True}
    _answers(address)
    _lets_in(address)
    asked = {"any": {}, "local": {"address": "local", **own}}.get(address, {"address": address})
    try:
        ray.init(**asked, **common)
    except ray.exceptions.AuthenticationError:
        raise BadInput(TOKEN.format(address=address)) from None
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        line = str(error).strip().partition("\n")[0]
        raise BadInput(f"on: the cluster {address!r} cannot be joined ({line})") from None
    _silence(ray)
    try:
        if address not in ("any", "local") and not _with_token():
            once(f"on: the cluster {address} asks for no token: whoever reaches its ports can run code on its machines")
        yield Cluster()
    finally:
        with suppress(Exception):
            ray.shutdown()


def _with_token() -> bool:
    return os.environ.get("RAY_AUTH_MODE", "").lower() == "token"


def _lets_in(address: str) -> None:
    """Refuse a cluster whose token we do not have: Ray itself would try for 20 seconds, and not say so."""
    if address.startswith("ray://") or ":" not in address:
        return
    try:
        door = importlib.import_module("ray._raylet").GcsClient  # the one that is asked once
        with _quiet():
            door(address=address)
    except Exception as error:  # whatever else is wrong, joining says it
        if type(error).__name__ == "AuthenticationError":
            raise BadInput(TOKEN.format(address=address)) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what Ray's C++ writes on standard error by itself."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _silence(ray: Any) -> None:
    """Keep Ray from printing what its machines say at their death, pages of it; the driver says it in a line."""
    with suppress(AttributeError):
        ray._private.worker.print_to_stdstream = lambda *_, **__: None


def _answers(address: str) -> None:
    """Refuse an address where nobody is: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host:
        return
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except (OSError, OverflowError) as error:
        what = f"on: no cluster answers at {address} ({error}); 'ray start --head' starts one"
        raise BadInput(what) from None
