"""Over NVIDIA FLARE: real processes, mutual TLS, kills. What comes out is the simulation, to the bit."""

import os
import shutil
import signal
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="pip install 'baton-fl[deploy]' for runs over real sites")

from baton.deploy.flare import processes, reach
from baton.deploy.served import DOUBLES, STATUS, read
from baton.setting import Setting
from federation import setting
from flare_federation import NAMES, Federation, federation
from test_deploy_run import SPECS, same, simulation

pytestmark = pytest.mark.filterwarnings("ignore")  # FLARE's own


def three(spec: str, **more: object) -> Setting:
    return setting(spec, clients=len(NAMES), participants=len(NAMES), **{"rounds": 3, **more})


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with federation(tmp_path_factory.mktemp("flare"), three("sequential")) as found:
        yield found


def until(fed: Federation, round: int) -> None:
    """Until the run is so far."""
    end = time.monotonic() + 90
    while time.monotonic() < end and int(read(fed.folder / STATUS).get("round", -1)) < round:
        time.sleep(0.02)


def child_of(fed: Federation, name: str) -> int:
    """The process at a site that trains; 0 where there is none."""
    mark = str(fed.folder / "kits" / name / "local" / "site.json")
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"baton.deploy.child" in words and mark.encode() in words:
            return int(path.parent.name)
    return 0


@pytest.mark.long
def test_a_chain_whose_site_and_trainer_are_killed_is_the_simulation(fed: Federation) -> None:
    """A site is killed whole and comes back; another's training process is killed alone: nothing is lost."""
    s = fed.plan(three("sequential", rounds=40, eval_every=40, local_steps=200)).setting
    done: list[str] = []

    def kill() -> None:
        until(fed, 1)
        if pid := child_of(fed, "site-3"):
            os.kill(pid, signal.SIGKILL)
            done.append("trainer")
        until(fed, 3)
        fed.kill("site-2")
        done.append("site")
        time.sleep(1)
        fed.begin("site-2")

    store = fed.train(kill)
    same(store, s, simulation(s))
    assert done == ["trainer", "site"]
    assert store.read(s.run_id).metrics["lost_legs"][-1] == 0


@pytest.mark.long
def test_scaffold_goes_on_after_its_server_was_killed(fed: Federation) -> None:
    s = fed.plan(three("scaffold", rounds=40, eval_every=40, local_steps=200)).setting

    def kill() -> None:
        until(fed, 3)
        fed.kill_server()

    same(fed.train(kill), s, simulation(s))


def test_a_short_chain_is_the_simulation_and_nobody_gets_in_without_a_certificate(fed: Federation) -> None:
    """The port speaks mutual TLS: plain text, no certificate, and one that somebody else signed are refused."""
    import socket

    s = fed.plan(three("sequential")).setting
    same(fed.train(), s, simulation(s))
    kit = fed.folder / "kits" / "site-1" / "startup"

    def greeted(context: ssl.SSLContext | None) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", fed.port), 5) as plain:
                plain.settimeout(5)
                talk = context.wrap_socket(plain, server_hostname="localhost") if context else plain
                talk.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
                return b"\4\0\0\0\0" in talk.recv(64)  # its settings: it speaks
        except OSError:
            return False

    def context(**own: Path) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=kit / "rootCA.pem")
        made.set_alpn_protocols(["h2"])
        if own:
            made.load_cert_chain(**own)
        return made

    other = Federation(fed.folder.parent / "other", three("sequential"), 1)
    theirs = other.folder / "kits" / "site-1" / "startup"
    assert greeted(context(certfile=kit / "client.crt", keyfile=kit / "client.key"))
    assert not greeted(None)
    assert not greeted(context())
    assert not greeted(context(certfile=theirs / "client.crt", keyfile=theirs / "client.key"))


@pytest.mark.long
def test_a_copied_kit_is_refused_while_the_real_site_trains(fed: Federation, tmp_path: Path) -> None:
    """A second site under one name ends; the run goes on with the first, and the server writes the name down."""
    s = fed.plan(three("sequential", rounds=40, eval_every=40, local_steps=200)).setting
    real, copied = fed.folder / "kits" / "site-2", tmp_path / "copied"
    ended: list[bool] = []

    def copy() -> None:
        until(fed, 3)
        shutil.copytree(real, copied)
        child = processes.site(copied, "site-2", "site_2", copied / "local" / "site.json", copied / "flare.log")
        end = time.monotonic() + 60
        while child.poll() is None and time.monotonic() < end:
            time.sleep(0.2)
        ended.append(child.poll() is not None)
        processes.end(child.pid, 0.0)

    store = fed.train(copy)
    assert ended == [True]
    assert reach.rejected(copied / "flare.log", 0)
    assert "site-2" in read(fed.folder / DOUBLES)
    same(store, s, simulation(s))


@pytest.mark.long
def test_every_algorithm_is_its_simulation(fed: Federation) -> None:
    """All that are registered and fit, one run after another over the same sites."""
    specs = [spec.replace("groups=2", "groups=3") for spec in SPECS]  # S is 3
    runs = fed.plan(three("sequential"), specs).runs
    store = fed.train(limit=900.0)
    for s in runs:
        same(store, s, simulation(s), exact=not s.algorithm.startswith(("ssl", "splitfed")))


@pytest.mark.long
def test_noise_on_legs_is_drawn_from_each_sites_own_secret(fed: Federation) -> None:
    """With dp a site writes every leg into its books, and what comes out is not what a simulation could draw."""
    s = fed.plan(three("sequential", dp="gaussian:clip=0.5,noise=0.1")).setting
    store = fed.train()
    with pytest.raises(AssertionError):
        same(store, s, simulation(s))
    secrets = set()
    for name in NAMES:
        kept = fed.folder / "kits" / name / "kept"
        assert len((kept / "released.csv").read_text().splitlines()) == s.rounds
        secrets.add((kept / "secret").read_bytes())
    assert len(secrets) == len(NAMES)


LIES = ("nan", "shape", "type", "leaf", "huge", "leg", "steps", "none", "else", "late")
LIAR = f"""
import itertools, sys, time
if "baton.deploy.child" in sys.orig_argv:
    from baton.deploy.messages import Train
    from baton.deploy.site import Site
    from baton.deploy.wire import unpacked
    from test_deploy_site import bad
    honest, kinds = Site.handle, itertools.cycle({LIES})

    def handle(self, frame):
        got = honest(self, frame)
        if not isinstance(unpacked(frame), Train):
            return got
        kind = next(kinds)
        if kind == "late":
            time.sleep(60)
        return bad(kind, bytes(frame), got)

    Site.handle = handle
"""


@pytest.mark.long
def test_a_site_that_lies_is_not_believed_and_the_chain_goes_on(fed: Federation, tmp_path: Path) -> None:
    """Every kind of bad reply, one a round, from a real site's training process; nothing is waited for."""
    (tmp_path / "sitecustomize.py").write_text(LIAR)
    lost = {"wait": 0.0, "then": "skip"}
    s = fed.plan(three("sequential", rounds=len(LIES), eval_every=len(LIES)), None, lost, norm=50.0, leg=6).setting
    fed.kill("site-3")
    fed.begin("site-3", os.pathsep.join([str(tmp_path), str(Path(__file__).parent)]))
    try:
        store = fed.train()
    finally:
        fed.kill("site-3")
        fed.begin("site-3")
    assert store.read(s.run_id).metrics["lost_legs"][-1] == len(LIES)
    without = Setting(**{**s.model_dump(), "failures": "clients:who=2", "on_failure": "skip"})
    same(store, s, simulation(without, real=False))


@pytest.mark.long
@pytest.mark.parametrize("seed", [pytest.param(2, id="C"), pytest.param(3, id="torch, all that is kept")])
def test_a_storm_of_kills_changes_nothing(seed: int, tmp_path: Path) -> None:
    """A tenth of what `python tests/storm.py` does, or as much as BATON_STORM says."""
    from storm import storm

    kills = int(os.environ.get("BATON_STORM", "10"))
    assert storm(tmp_path, kills, seed).total() == kills
