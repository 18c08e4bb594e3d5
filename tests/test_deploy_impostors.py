"""Nobody takes part who is not who they say: six kinds of impostor against a real server."""

import datetime
import json
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="pip install 'baton-fl[deploy]' for runs over real sites")

from cryptography.hazmat.primitives.serialization import load_pem_private_key
from nvflare.fuel.flare_api.flare_api import new_secure_session
from nvflare.lighter.utils import Identity, generate_cert, generate_keys, serialize_cert, serialize_pri_key

from baton.deploy.flare import processes
from baton.deploy.flare.supervise import Supervisor
from baton.deploy.plan import ADMIN
from flare_federation import Federation, federation
from test_deploy_flare import three

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]  # FLARE's own


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with federation(tmp_path_factory.mktemp("impostors"), three("sequential")) as found:
        found.train()
        yield found


def greeted(fed: Federation, own: tuple[Path, Path] | None, plain: bool = False) -> bool:
    """Whether the server speaks to whoever comes with such a certificate."""
    context = ssl.create_default_context(cafile=fed.folder / "kits" / "site-1" / "startup" / "rootCA.pem")
    context.set_alpn_protocols(["h2"])
    if own:
        context.load_cert_chain(*own)
    try:
        with socket.create_connection(("127.0.0.1", fed.port), 5) as way:
            way.settimeout(5)
            talk = way if plain else context.wrap_socket(way, server_hostname="localhost")
            talk.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
            return b"\4\0\0\0\0" in talk.recv(64)  # its settings: it speaks
    except OSError:
        return False


def signed(fed: Federation, folder: Path, days: int, by_root: bool) -> tuple[Path, Path]:
    """A certificate for site-1 that ends in so many days, by the federation's root or by its own key."""
    state = json.loads((fed.folder / "workspace" / "trial" / "state" / "cert.json").read_text())
    key, public = generate_keys()
    root = load_pem_private_key(state["root_pri_key"].encode(), None)
    now = datetime.datetime.now(datetime.UTC)
    issuer = Identity("trial") if by_root else Identity("site-1", "site_1")
    made = generate_cert(
        Identity("site-1", "site_1"),
        issuer,
        root if by_root else key,
        public,
        not_valid_before=now - datetime.timedelta(days=30),
        not_valid_after=now + datetime.timedelta(days=days),
    )
    folder.mkdir()
    (folder / "own.crt").write_bytes(serialize_cert(made))
    (folder / "own.key").write_bytes(serialize_pri_key(key))
    return folder / "own.crt", folder / "own.key"


def test_the_port_speaks_to_certificates_of_this_federation_alone(fed: Federation, tmp_path: Path) -> None:
    """Plain text, no certificate, another federation's, a self-signed and an expired one are refused."""
    startup = fed.folder / "kits" / "site-1" / "startup"
    theirs = Federation(tmp_path / "other", three("sequential"), 1).folder / "kits" / "site-1" / "startup"
    assert greeted(fed, (startup / "client.crt", startup / "client.key"))
    assert greeted(fed, signed(fed, tmp_path / "valid", 30, by_root=True))  # so that what follows is told apart
    assert not greeted(fed, None, plain=True)
    assert not greeted(fed, None)
    assert not greeted(fed, (theirs / "client.crt", theirs / "client.key"))
    assert not greeted(fed, signed(fed, tmp_path / "self", 30, by_root=False))
    assert not greeted(fed, signed(fed, tmp_path / "expired", -1, by_root=True))


def exchanged(fed: Federation, name: str, other: Path, to: Path) -> Path:
    """A kit with somebody else's certificate in it."""
    shutil.copytree(fed.folder / "kits" / name, to)
    for file in ("client.crt", "client.key"):
        shutil.copy(other / "startup" / file, to / "startup" / file)
    return to


def test_a_site_under_another_ones_name_is_not_let_in(fed: Federation, tmp_path: Path) -> None:
    kit = exchanged(fed, "site-2", fed.folder / "kits" / "site-1", tmp_path / "site-2")
    fed.kill("site-2")
    supervisor = Supervisor(fed.folder, lambda _line: None)
    child = processes.site(kit, "site-2", "site_2", kit / "local" / "site.json", tmp_path / "log")
    try:
        supervisor._connect()
        time.sleep(20)  # a site registers in 3
        assert supervisor._look() == {"site-1", "site-3"}
    finally:
        processes.end(child.pid, 0.0)
        supervisor.close()
        fed.begin("site-2")


def test_a_site_is_no_admin_and_another_federations_admin_is_none_here(fed: Federation, tmp_path: Path) -> None:
    other = Federation(tmp_path / "other", three("sequential"), 1)
    for number, source in enumerate((fed.folder / "kits" / "site-1", other.folder / "kits" / ADMIN)):
        kit = exchanged(fed, ADMIN, source, tmp_path / str(number))
        with pytest.raises(Exception):  # noqa: B017, PT011
            new_secure_session(ADMIN, str(kit), timeout=8.0)
    new_secure_session(ADMIN, str(fed.folder / "kits" / ADMIN), timeout=15.0).close()
