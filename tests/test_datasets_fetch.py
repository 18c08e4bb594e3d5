"""Downloading, from a real HTTPS server on this machine: resuming, wrong bytes, dead mirrors, archives."""

import hashlib
import http.server
import io
import ssl
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from baton.datasets import fetch, find, official
from baton.datasets.check import check
from baton.datasets.official import Download, Remote
from baton.errors import BadInput
from made_data import IDX, write_cifar, write_folders, write_idx

pytest_plugins = ["fixtures_data"]


class Server(http.server.ThreadingHTTPServer):
    """Files in memory, and the ways in which they are served badly."""

    daemon_threads = True
    files: dict[str, bytes]
    requests: list[tuple[str, str | None]]  # (path, its Range)
    cut: int  # a connection is cut after so many bytes; 0: never
    ranges: bool  # whether it understands Range
    length: bool  # whether it says how much will come

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that hangs up


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.requests.append((self.path, wanted))
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
            self.end_headers()
            return
        data = self.server.files.get(self.path)
        if data is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.ranges else 0
        if start >= len(data) > 0:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if self.server.length:
            self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        end = start + self.server.cut if self.server.cut else len(data)
        self.wfile.write(data[start:end])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("certificate")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert),
        ],
        check=True,
        capture_output=True,
    )
    return key, cert


@pytest.fixture
def server(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Server(("127.0.0.1", 0), Handler)
    made.files, made.requests, made.cut, made.ranges, made.length = {}, [], 0, True, True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate[1], certificate[0])
    made.socket = context.wrap_socket(made.socket, server_side=True)
    thread = threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def trust(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate[1]))


CONTENT = bytes(range(256)) * 5000  # 1.28 million bytes
DEAD = "https://127.0.0.1:1/"


def remote(server: Server, *folders: str, content: bytes = CONTENT, kind: str = "sha256") -> Remote:
    """A file on this server's folders; an address stands for itself."""
    mirrors = tuple(f if f.startswith("http") else f"https://127.0.0.1:{server.server_port}{f}" for f in folders)
    return Remote("file.bin", f"{kind}:{hashlib.new(kind, content).hexdigest()}", mirrors)


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_a_file_arrives_whole(server: Server, trust: ssl.SSLContext, tmp_path: Path, kind: str) -> None:
    server.files["/a/file.bin"] = CONTENT
    seen: list[tuple[str, int, int]] = []
    path = fetch.fetch(remote(server, "/a/", kind=kind), tmp_path, lambda *at: seen.append(at), trust)
    assert path.read_bytes() == CONTENT
    assert [p.name for p in tmp_path.iterdir()] == ["file.bin"]
    assert seen[-1] == ("file.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    fetch.fetch(remote(server, "/a/", kind=kind), tmp_path, None, trust)  # there already
    assert len(server.requests) == 1


def test_a_cut_connection_goes_on_where_it_was(server: Server, trust: ssl.SSLContext, tmp_path: Path) -> None:
    server.files["/a/file.bin"] = CONTENT
    server.cut = 500_000
    path = fetch.fetch(remote(server, "/a/"), tmp_path, None, trust)
    assert path.read_bytes() == CONTENT
    assert [r for _, r in server.requests] == [None, "bytes=500000-", "bytes=1000000-"]


def test_the_next_call_goes_on_too(server: Server, trust: ssl.SSLContext, tmp_path: Path) -> None:
    server.files["/a/file.bin"] = CONTENT
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:700_000])
    assert fetch.fetch(remote(server, "/a/"), tmp_path, None, trust).read_bytes() == CONTENT
    assert server.requests == [("/a/file.bin", "bytes=700000-")]


def test_another_mirror_goes_on_with_it(server: Server, trust: ssl.SSLContext, tmp_path: Path) -> None:
    server.files["/b/file.bin"] = CONTENT
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:700_000])
    assert fetch.fetch(remote(server, DEAD, "/a/", "/b/"), tmp_path, None, trust).read_bytes() == CONTENT
    assert server.requests[-1] == ("/b/file.bin", "bytes=700000-")


@pytest.mark.parametrize("part", [b"something else", CONTENT + b"more", CONTENT])
def test_whatever_the_part_holds(server: Server, trust: ssl.SSLContext, tmp_path: Path, part: bytes) -> None:
    server.files["/a/file.bin"] = CONTENT
    (tmp_path / "file.bin.part").write_bytes(part)
    assert fetch.fetch(remote(server, "/a/"), tmp_path, None, trust).read_bytes() == CONTENT
    assert len(server.requests) == (0 if part == CONTENT else 2)


def test_a_mirror_without_ranges_starts_again(server: Server, trust: ssl.SSLContext, tmp_path: Path) -> None:
    server.files["/a/file.bin"] = CONTENT
    server.ranges = False
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:700_000])
    assert fetch.fetch(remote(server, "/a/"), tmp_path, None, trust).read_bytes() == CONTENT
    assert len(server.requests) == 1


def test_a_mirror_that_does_not_say_how_much(server: Server, trust: ssl.SSLContext, tmp_path: Path) -> None:
    server.files["/a/file.bin"] = CONTENT
    server.length = False
    assert fetch.fetch(remote(server, "/a/"), tmp_path, None, trust).read_bytes() == CONTENT


def test_wrong_bytes_are_thrown_away(server: Server, trust: ssl.SSLContext, tmp_path: Path) -> None:
    server.files["/a/file.bin"] = CONTENT[:-1] + b"!"
    with pytest.raises(fetch._Mirror, match="another checksum"):
        fetch.fetch(remote(server, "/a/"), tmp_path, None, trust)
    assert list(tmp_path.iterdir()) == []
    server.files["/b/file.bin"] = CONTENT
    assert fetch.fetch(remote(server, "/a/", "/b/"), tmp_path, None, trust).read_bytes() == CONTENT


def test_a_mirror_that_gives_nothing_is_left(server: Server, trust: ssl.SSLContext, tmp_path: Path) -> None:
    server.files["/a/file.bin"] = CONTENT
    server.files["/b/file.bin"] = b""
    server.cut = 1_280_000
    assert fetch.fetch(remote(server, "/b/", "/gone/", "/a/"), tmp_path, None, trust).read_bytes() == CONTENT
    assert [p for p, _ in server.requests] == ["/b/file.bin", "/gone/file.bin", "/a/file.bin"]


def test_endless_data_is_not_taken(
    server: Server, trust: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "LARGEST", 1_000_000)
    server.files["/a/file.bin"] = CONTENT
    with pytest.raises(fetch._Mirror, match="sends more than 1,000,000 bytes"):
        fetch.fetch(remote(server, "/a/"), tmp_path, None, trust)
    assert list(tmp_path.iterdir()) == []


def test_only_https_and_only_whom_we_trust(server: Server, trust: ssl.SSLContext, tmp_path: Path) -> None:
    server.files["/a/file.bin"] = CONTENT
    with pytest.raises(fetch._Mirror, match="certificate"):
        fetch.fetch(remote(server, "/a/"), tmp_path)
    with pytest.raises(fetch._Mirror, match="not HTTPS"):
        fetch.fetch(remote(server, "http://127.0.0.1/"), tmp_path, None, trust)
    with pytest.raises(fetch._Mirror, match="not HTTPS"):
        fetch.fetch(remote(server, "/to/http://127.0.0.1:1/"), tmp_path, None, trust)
    onward = f"/to/https://127.0.0.1:{server.server_port}/a/"
    assert fetch.fetch(remote(server, onward), tmp_path, None, trust).read_bytes() == CONTENT


def test_two_at_once_do_not_mix(server: Server, trust: ssl.SSLContext, tmp_path: Path) -> None:
    import fcntl

    server.files["/a/file.bin"] = CONTENT
    with open(tmp_path / "file.bin.part", "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(BadInput, match="another process is downloading"):
            fetch.fetch(remote(server, "/a/"), tmp_path, None, trust)


def tar(folder: Path, inside: str = "") -> bytes:
    """A folder's contents as a tar.gz, under a name inside it or at its top."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", compresslevel=1) as file:
        for path in sorted(folder.iterdir()):
            file.add(path, str(Path(inside) / path.name))
    return made.getvalue()


def catalogue(server: Server, name: str, folder: str, files: dict[str, bytes], archive: bool) -> dict[str, Download]:
    server.files |= {f"/{file}": content for file, content in files.items()}
    here = (DEAD, f"https://127.0.0.1:{server.server_port}/")
    remotes = (Remote(f, f"sha256:{hashlib.sha256(c).hexdigest()}", here) for f, c in files.items())
    return {name: Download(folder, tuple(remotes), archive)}


def test_idx_files_are_fetched(server: Server, trust: ssl.SSLContext, data: Path, tmp_path: Path) -> None:
    write_idx(tmp_path / "source")
    files = {f"{name}.gz": (tmp_path / "source" / f"{name}.gz").read_bytes() for name in IDX}
    downloads = catalogue(server, "mnist", "mnist", files, archive=False)
    assert fetch.get("mnist", data, None, trust, downloads) == data / "mnist"
    assert find.find("mnist").folder == data / "mnist"
    asked = len(server.requests)
    fetch.get("mnist", data, None, trust, downloads)
    assert len(server.requests) == asked == 4
    (data / "mnist" / f"{IDX[3]}.gz").unlink()
    fetch.get("mnist", data, None, trust, downloads)
    assert len(server.requests) == 5


@pytest.mark.parametrize(
    ("name", "folder", "inside"),
    [
        ("cifar10", "cifar-10-batches-py", "cifar-10-batches-py"),
        ("cinic10", "cinic-10", ""),
        ("cinic10", "cinic-10", "x"),
    ],
)
def test_archives_are_unpacked(
    server: Server, trust: ssl.SSLContext, data: Path, tmp_path: Path, name: str, folder: str, inside: str
) -> None:
    write_cifar(tmp_path)
    write_folders(tmp_path / "cinic-10")
    (data / folder / "rest").mkdir(parents=True)  # of something half unpacked by hand
    downloads = catalogue(server, name, folder, {"all.tar.gz": tar(tmp_path / folder, inside)}, archive=True)
    assert fetch.get(name, data, None, trust, downloads) == data / folder
    assert [p.name for p in data.iterdir()] == [folder]
    assert check(name).state == "other data"


def test_an_archive_put_there_by_hand_is_used(trust: ssl.SSLContext, data: Path, tmp_path: Path) -> None:
    write_cifar(tmp_path)
    packed = tar(tmp_path / "cifar-10-batches-py", "cifar-10-batches-py")
    (data / "all.tar.gz").write_bytes(packed)
    offline = Download("cifar-10-batches-py", (Remote("all.tar.gz", _sha(packed), (DEAD,)),), archive=True)
    fetch.get("cifar10", data, None, trust, {"cifar10": offline})
    assert find.find("cifar10").missing == ()


def _sha(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_an_archive_cannot_write_elsewhere(server: Server, trust: ssl.SSLContext, data: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as file:
        for name in ("cifar-10-batches-py/data_batch_1", "../../outside"):
            about = tarfile.TarInfo(name)
            about.size = 3
            file.addfile(about, io.BytesIO(b"abc"))
    for content in (made.getvalue(), made.getvalue()[:60], b"no archive"):
        downloads = catalogue(server, "cifar10", "cifar-10-batches-py", {"all.tar.gz": content}, archive=True)
        with pytest.raises(BadInput, match="cannot be unpacked"):
            fetch.get("cifar10", data, None, trust, downloads)
        assert [p.name for p in data.iterdir()] == ["all.tar.gz"]
        assert not list(data.parent.glob("outside*"))
        (data / "all.tar.gz").unlink()


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10", "cinic10"])
def test_without_a_network_it_says_what_to_put_where(data: Path, name: str) -> None:
    whole = official.DOWNLOADS[name]
    dead = whole._replace(remotes=tuple(r._replace(mirrors=(DEAD, "https://localhost:1/")) for r in whole.remotes))
    with pytest.raises(BadInput) as error:
        fetch.get(name, data, None, None, {name: dead})
    line = str(error.value)
    assert "\n" not in line
    assert "127.0.0.1:1: Connection refused; localhost:1: Connection refused" in line.replace("[Errno 111] ", "")
    assert f"into {data / whole.folder}" in line


def test_a_place_that_cannot_be_written(data: Path) -> None:
    (data / "file").write_text("")
    with pytest.raises(BadInput, match=r"cannot be written to .* give another --data-dir"):
        fetch.get("mnist", data / "file")


def test_the_catalogue_is_sound() -> None:
    assert set(official.DOWNLOADS) == set(find.LAYOUTS)
    for name, download in official.DOWNLOADS.items():
        forms = {folder: form for form in find.LAYOUTS[name] for folder in form.folders}
        form = forms[download.folder]
        for one in download.remotes:
            kind, _, digest = one.digest.partition(":")
            assert len(digest) == {"sha256": 64, "md5": 32}[kind]
            assert int(digest, 16) > 0
            assert len(one.mirrors) >= (1 if name == "heart" else 2)  # UCI has one address
            assert all(mirror.startswith("https://") and mirror.endswith("/") for mirror in one.mirrors)
        if not download.archive:
            assert [one.file for one in download.remotes] == [need + form.endings[-1] for need in form.needs]
