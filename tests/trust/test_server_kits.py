"""Kits, plans and processes of a federation: what goes wrong is told, and what nobody agreed to does not begin."""

import datetime
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

pytest.importorskip("nvflare", reason="pip install 'baton-fl[deploy]' for runs over real sites")

from baton.cli import app
from baton.deploy import plan
from baton.deploy.flare import kits, processes, stay
from baton.deploy.flare.supervise import SERVER

pytestmark = [pytest.mark.trust, pytest.mark.filterwarnings("ignore")]  # FLARE's own

PLAN = """
[federation]
name = "{name}"
server = "localhost"
port = {port}
[[sites]]
name = "north"
[[sites]]
name = "east"
[data]
features = ["age", "chol"]
label = "sick"
classes = ["0", "1"]
mean = [54.0, 5.5]
scale = [9.0, 1.0]
[run]
model = "logistic"
algorithm = "sequential"
rounds = 400
local_steps = 2
lr = 0.05
"""
WAIT = 9.0  # seconds in which a site has to say why it does not reach its server


def free() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def planned(folder: Path, name: str, port: int) -> Path:
    """A federation's folder, as `deploy plan` leaves it; its file is beside it."""
    file = folder / f"{name}.toml"
    file.write_text(PLAN.format(name=name, port=port))
    found = plan.read(file)
    kits.provision(found, folder / name)
    found.save(folder / name)
    return folder / name


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planned(tmp_path_factory.mktemp("kits"), "hearts", free())


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planned(tmp_path_factory.mktemp("others"), "lungs", free())


def rows(path: Path, chol: float = 5.5, count: int = 60) -> Path:
    """A table whose ages are the plan's; of the cholesterol only the unit is another's."""
    cells = [f"{54 + i % 19 - 9},{chol * (0.7 + 0.6 * (i % 13) / 12):.3f},{i % 2}" for i in range(count)]
    path.write_text("\n".join(["age,chol,sick", *cells]) + "\n")
    return path


# --- the plan


@pytest.fixture
def edited(fed: Path) -> Iterator[Path]:
    """The file of a plan, changed after it was planned."""
    file = fed.parent / "hearts.toml"
    text = file.read_text()
    file.write_text(text.replace("rounds = 400", "rounds = 7"))
    yield file
    file.write_text(text)


def test_an_edited_plan_is_refused_in_one_line(edited: Path, fed: Path) -> None:
    """What was planned is in the folder; the file that a person names says something else by now."""
    words = [sys.executable, "-m", "baton", "deploy", "start", str(edited)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            _, said = process.communicate(timeout=25)
        except subprocess.TimeoutExpired:
            process.kill()
            said = "it went on"
        finally:
            _end_server(fed)
    assert process.returncode == 2, said
    assert "hearts.toml was changed since 'baton deploy plan'" in said
    assert "Traceback" not in said


def test_status_does_not_show_the_run_of_another_plan(edited: Path) -> None:
    done = CliRunner().invoke(app, ["deploy", "status", str(edited)])
    assert "was changed since 'baton deploy plan'" in str(done.exception)


def _end_server(fed: Path) -> None:
    try:
        processes.end(int((fed / SERVER).read_text()), 0.0)
    except (OSError, ValueError):
        return


def test_sigterm_of_the_server_ends_all_of_it(fed: Path) -> None:
    """As a service manager ends it: its FLARE process ends too."""
    words = [sys.executable, "-m", "baton", "deploy", "start", str(fed)]
    (fed / SERVER).unlink(missing_ok=True)
    try:
        with subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            end = time.monotonic() + 20
            while not (fed / SERVER).exists() and time.monotonic() < end:
                time.sleep(0.05)
            group = int((fed / SERVER).read_text())
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=20)
        assert not processes._lives(group), "the server lives on"
    finally:
        _end_server(fed)


# --- a kit


def test_nothing_in_a_kit_starts_before_its_people_agree(fed: Path) -> None:
    for name in ("north", "east"):
        kit = fed / "kits" / name
        said = (kit / "readme.txt").read_text()
        assert not list(kit.rglob("start.sh"))
        assert "start.sh" not in said
        assert "baton site start" in said
        assert "agree" in said


def site_start(kit: Path, data: Path) -> str:
    """What a site's people read before they are asked; they do not agree."""
    done = CliRunner().invoke(app, ["site", "start", str(kit), "--data", str(data)], input="n\n")
    assert done.exit_code == 1
    return done.output


@pytest.mark.parametrize(("chol", "column"), [(212.0, "chol"), (0.0055, "chol")], ids=["mg/dl", "mol/l"])
def test_columns_in_other_units_are_told_before_anything_is_sent(
    chol: float, column: str, fed: Path, tmp_path: Path
) -> None:
    usual = site_start(fed / "kits" / "north", rows(tmp_path / "usual.csv"))
    found = site_start(fed / "kits" / "north", rows(tmp_path / "found.csv", chol))
    assert "units" not in usual
    assert [line for line in found.splitlines() if column in line and "units" in line]
    assert not [line for line in found.splitlines() if "age" in line and "units" in line]


# --- a site that does not reach its server


def heard(kit: Path, data: Path) -> list[str]:
    """What a site that is started says, until it names a reason or the time is up."""
    here, _, _ = stay.place(stay.read(kit), data, "", None)
    said: list[str] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def say(line: str) -> None:
        said.append(line)
        if line.startswith(("no connection", "version")):
            os.kill(os.getpid(), signal.SIGTERM)

    timer = threading.Timer(WAIT, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    try:
        stay.stay(stay.read(kit), here, say)
    finally:
        timer.cancel()
        for number, old in before.items():
            signal.signal(number, old)
    return said


@pytest.fixture
def kit(fed: Path, tmp_path: Path) -> Path:
    """A site's own; what a test changes is its copy."""
    shutil.copytree(fed / "kits" / "north", tmp_path / "north")
    return tmp_path / "north"


def to(kit: Path, target: str) -> Path:
    """With another address of its server."""
    file = kit / "startup" / "fed_client.json"
    table = json.loads(file.read_text())
    table["servers"][0]["service"]["target"] = target
    file.write_text(json.dumps(table))
    return kit


def test_a_site_says_that_nobody_answers(kit: Path, tmp_path: Path) -> None:
    said = heard(kit, rows(tmp_path / "a.csv"))
    assert any("address" in line and "localhost" in line for line in said), said


def test_a_site_says_that_an_address_is_not_found(kit: Path, tmp_path: Path) -> None:
    said = heard(to(kit, "no-such-machine.invalid:8002"), rows(tmp_path / "a.csv"))
    assert any("address" in line and "no-such-machine.invalid" in line for line in said), said


@pytest.fixture
def server(other: Path) -> Iterator[int]:
    """A server of another federation: mutual TLS, as FLARE's has it."""
    startup = other / "kits" / "localhost" / "startup"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(startup / "server.crt", startup / "server.key")
    context.load_verify_locations(startup / "rootCA.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listening.accept()
                    with context.wrap_socket(plain, server_side=True) as talk:
                        talk.recv(64)
                except ssl.SSLError:
                    continue
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield int(listening.getsockname()[1])


def test_a_site_says_that_a_server_is_of_another_federation(kit: Path, server: int, tmp_path: Path) -> None:
    said = heard(to(kit, f"localhost:{server}"), rows(tmp_path / "a.csv"))
    assert any("certificate" in line for line in said), said


def test_a_site_says_that_a_server_refuses_its_certificate(kit: Path, other: Path, server: int, tmp_path: Path) -> None:
    """It knows the server's root, and the server does not know its own."""
    shutil.copy(other / "kits" / "north" / "startup" / "rootCA.pem", kit / "startup" / "rootCA.pem")
    said = heard(to(kit, f"localhost:{server}"), rows(tmp_path / "a.csv"))
    assert any("certificate" in line for line in said), said


@pytest.mark.parametrize(("begins", "word"), [(2, "clock"), (-60, "certificate")], ids=["to come", "ended"])
def test_a_site_says_that_its_certificate_is_not_of_this_day(begins: int, word: str, kit: Path, tmp_path: Path) -> None:
    """By its own clock: in days from now, for a month."""
    from nvflare.lighter.utils import Identity, generate_cert, generate_keys, serialize_cert, serialize_pri_key

    key, public = generate_keys()
    begin = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=begins)
    days = datetime.timedelta(days=30)
    who = Identity("north", "north")
    made = generate_cert(who, who, key, public, not_valid_before=begin, not_valid_after=begin + days)
    (kit / "startup" / "client.crt").write_bytes(serialize_cert(made))
    (kit / "startup" / "client.key").write_bytes(serialize_pri_key(key))
    said = heard(kit, rows(tmp_path / "a.csv"))
    assert any(line.startswith("no connection") and word in line for line in said), said


def test_a_site_says_that_its_kit_is_of_another_version(kit: Path, tmp_path: Path) -> None:
    file = kit / "local" / "baton.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "baton": "0.0.7"}))
    said = heard(kit, rows(tmp_path / "a.csv"))
    assert any("version" in line and "0.0.7" in line for line in said), said


# --- two kits under one name


class Registry:
    """A server's list of sites and a kit's components, as FLARE joins them: events, then the list."""

    def __init__(self, fed: Path) -> None:
        from nvflare.private.fed.server.client_manager import ClientManager

        self.manager = ClientManager("hearts", 1, 100)
        self.server = _components(fed / "kits" / "localhost")
        self.engine = SimpleNamespace(get_clients=lambda: list(self.manager.get_clients().values()))

    def registers(self, kit: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
        """Whether a site of this kit is let in, as FedServer.register_client does it."""
        from nvflare.apis.client import Client
        from nvflare.apis.event_type import EventType
        from nvflare.apis.fl_constant import FLContextKey, ReservedKey
        from nvflare.apis.fl_context import FLContext
        from nvflare.apis.utils.event import fire_event_to_components
        from nvflare.apis.utils.fl_context_utils import gen_new_peer_ctx
        from nvflare.private.defs import ClientType

        monkeypatch.setenv("BATON_SITE", str(kit / "local" / "site.json"))
        (kit / "local" / "site.json").touch()
        theirs, ours = FLContext(), FLContext()
        theirs.set_prop(ReservedKey.IDENTITY_NAME, "north", private=False, sticky=True)
        fire_event_to_components(EventType.BEFORE_CLIENT_REGISTER, _components(kit), theirs)
        ours.set_prop(ReservedKey.ENGINE, self.engine, private=True, sticky=False)
        ours.set_prop(FLContextKey.CLIENT_TYPE, ClientType.REGULAR, private=False, sticky=False)
        ours.set_peer_context(gen_new_peer_ctx(theirs))
        fire_event_to_components(EventType.CLIENT_REGISTER_RECEIVED, self.server, ours)
        if ours.get_prop(FLContextKey.EXCEPTIONS):
            return False
        for token, client in list(self.manager.clients.items()):
            if client.name == "north":
                del self.manager.clients[token]
        token = os.urandom(4).hex()
        client = Client("north", token)
        client.last_connect_time = time.time()
        self.manager.clients[token] = client
        fire_event_to_components(EventType.CLIENT_REGISTER_PROCESSED, self.server, ours)
        return True


def _components(kit: Path) -> list[object]:
    """Those of a kit that are Baton's, made as FLARE makes them."""
    from importlib import import_module

    found = []
    for each in json.loads((kit / "local" / "resources.json").read_text())["components"]:
        module, _, name = each.get("path", "").rpartition(".")
        if module.startswith("baton."):
            found.append(getattr(import_module(module), name)(**each.get("args", {})))
    return found


def test_a_copied_kit_is_refused_and_told(fed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real one stays, may be begun again, and `status` names it."""
    real, copied = fed / "kits" / "north", tmp_path / "copied"
    shutil.copytree(real, copied)
    registry = Registry(fed)
    assert registry.registers(real, monkeypatch)
    assert not registry.registers(copied, monkeypatch)
    assert registry.registers(real, monkeypatch)  # killed, and begun again
    assert not registry.registers(copied, monkeypatch)
    registry.manager.clients.clear()  # it was silent for so long that FLARE took it off
    assert registry.registers(copied, monkeypatch)
    assert not registry.registers(real, monkeypatch)
    said = CliRunner().invoke(app, ["deploy", "status", str(fed)]).output
    assert "second kit" in said
