"""The live page: for this machine alone, nothing but its own files, and it follows a sweep as it advances."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import processes
from baton.errors import BadInput
from baton.store import Store
from baton.watch import Live, Server, server
from browser import CHROMIUM, Browser
from test_report import fill, make, put, series

BATON = [sys.executable, "-m", "baton"]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def served(store: Store) -> Iterator[Server]:
    with server([make(groups={})], fill(store, make(groups={})), 0) as live:
        thread = threading.Thread(target=live.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield live
        finally:
            live.shutdown()
            thread.join()


def ask(live: Server, path: str, method: str = "GET", host: str | None = None) -> tuple[int, dict[str, str], bytes]:
    """One request, its path sent as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", live.server_port, timeout=20)
    try:
        whole = f"/{live.token}{path}" if path.startswith("/") else path
        connection.putrequest(method, whole, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", host or f"127.0.0.1:{live.server_port}")
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_it_gives_out_its_page_and_its_files(served: Server) -> None:
    status, headers, data = ask(served, "/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"Title of small" in data
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    for name, start in {
        "small-curves.svg": b"<?xml",
        "small-curves.png": b"\x89PNG",
        "small-lr.pdf": b"%PDF",
        "small.csv": b"group,",
        "small.md": b"|",
        "small.tex": b"",
    }.items():
        status, headers, data = ask(served, f"/{name}")
        assert (status, data[: len(start)]) == (200, start), name
        assert headers["content-length"] == str(len(data))
    status, headers, data = ask(served, "/", "HEAD")
    assert (status, data) == (200, b"")
    assert int(headers["content-length"]) > 4_000_000


@pytest.mark.parametrize(
    "path",
    [
        "/../setting.json",
        "/../../etc/passwd",
        "//etc/passwd",
        "/etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/small-curves.svg/../../journal.jsonl",
        "/journal.jsonl",
        "/runs",
        "/.",
        "/..",
        "/small-curves.svg%00.html",
        "http://127.0.0.1/etc/passwd",
        "file:///etc/passwd",
        "*",
    ],
)
def test_nothing_else_is_there(served: Server, path: str) -> None:
    assert ask(served, path)[0] in (403, 404)


def test_links_in_the_store_lead_nowhere(served: Server, store: Store) -> None:
    (store.root / "link").symlink_to("/etc/passwd")
    (store.root / "small.html").symlink_to("/etc/passwd")
    assert {ask(served, path)[0] for path in ("/link", "/small.html")} == {404}


def test_other_names_for_this_machine_are_refused(served: Server) -> None:
    port = served.server_port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", "", f"0.0.0.0:{port}"):
        for path in ("/", "/state", "/fresh"):
            assert ask(served, path, host=host or " ")[0] == 403, host
    assert ask(served, "/state", host=f"LOCALHOST:{port}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_are_refused(served: Server, method: str) -> None:
    assert ask(served, "/", method)[0] == (501 if method == "BREW" else 405)


def test_it_listens_on_one_address_only(served: Server) -> None:
    assert served.server_address[0] == "127.0.0.1"
    own = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in {*own, "127.0.0.2"}:
        with pytest.raises(OSError):  # noqa: PT011
            socket.create_connection((address, served.server_port), timeout=2)


def test_a_port_that_is_taken_is_one_line(served: Server, store: Store) -> None:
    with pytest.raises(BadInput, match=rf"^port: {served.server_port} is taken; another one, or 0 .*$"):
        server([make(groups={})], store, served.server_port)


def test_the_page_is_made_once_a_change(store: Store) -> None:
    shown = make(groups={})
    live = Live([shown], store)
    assert live.state()["newest"] is None
    before = live.look()
    assert live.look() is before
    put(store, shown.settings[0], series(shown.settings[0]))
    after = live.look()
    assert after.version > before.version
    assert live.look() is after
    assert abs(live.state()["newest"] - time.time()) < 60
    fresh: dict[str, Any] = json.loads(after.files["fresh.json"]())
    assert (fresh["version"], list(fresh["sections"])) == (after.version, ["small"])
    assert "1 of 8" in fresh["sections"]["small"]


def test_a_metric_that_is_not_there_is_told_on_the_page_that_is_open(store: Store) -> None:
    shown = make(groups={}, report={"metric": "distance"})
    live = Live([shown], store)  # nothing ran: it may still come
    version = live.state()["version"]
    put(store, shown.settings[0], series(shown.settings[0]))
    state = live.state()
    assert "measured 'distance'" in state["error"]
    assert state["version"] == version
    with pytest.raises(BadInput, match="measured 'distance'"):
        Live([shown], store)
    with pytest.raises(BadInput, match="no metric 'test_accurcy'; did you mean 'test_accuracy'"):  # before all else
        make(groups={}, report={"metric": "test_accurcy"})


STUDY = """
[base]
dataset = "digits"
model = "logistic"
rounds = 200000
eval_every = 20
clients = 4
[axes]
algorithm = ["sequential", "parallel"]
lr = [0.01, 0.1]
seed = [1, 2]
"""


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    (tmp_path / "s.toml").write_text(STUDY)
    command = [*BATON, "watch", str(tmp_path / "s.toml"), "--runs", str(tmp_path / "runs"), "--port", "0"]
    with processes.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield process, process.stdout.readline().split()[0]


def test_it_ends_quietly(watched: tuple[subprocess.Popen[str], str]) -> None:
    process, address = watched
    assert address.startswith("http://127.0.0.1:")
    taken = address.split(":")[2].split("/")[0]
    again = subprocess.run(
        [*BATON, "watch", "digits", "--port", taken], capture_output=True, text=True, check=False, timeout=60
    )
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.splitlines() == [
        f"baton: port: {taken} is taken; another one, or 0 for any that is free, is right"
    ]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed here, and this test looks at the page in one")
def test_it_follows_a_sweep(watched: tuple[subprocess.Popen[str], str], tmp_path: Path) -> None:
    address = watched[1]
    command = [*BATON, "sweep", str(tmp_path / "s.toml"), "--runs", str(tmp_path / "runs"), "--device", "cpu"]
    last = "Math.max(0, ...[...document.querySelectorAll('.plot')].flatMap((p) => (p.data ?? []).flatMap((t) => t.x)))"
    with Browser() as browser:
        browser.open(address)
        browser.until("document.getElementById('live').textContent.includes('Nothing has been trained yet')")
        browser.run("window.same = true; document.querySelectorAll('.key')[1].click()")  # parallel off
        with processes.start(
            [*command, "--checkpoint-seconds", "0", "--quiet"],
            stderr=subprocess.DEVNULL,
            env={**os.environ, "BATON_NATIVE": "0"},
        ) as sweep:
            try:
                browser.until(f"{last} > 0", 60)
                before = browser.run(last)
                browser.until(f"{last} > {before}", 60)
            finally:
                sweep.terminate()
        assert "Newest evaluation" in browser.run("document.getElementById('live').textContent")
        assert "in training" in browser.run("document.querySelector('[data-part=results]').innerText")
        assert browser.run("window.same")  # the same page all the time
        colours = "[...new Set(document.querySelector('.plot').data.map((t) => t.line.color))]"
        assert "#0072B2" not in browser.run(colours)  # what was switched off stays so
        assert browser.complaints == []
        assert {a.rpartition("/")[0] for a in browser.asked if a.startswith("http")} == {address.rstrip("/")}
        watched[0].kill()
        browser.until("document.getElementById('live').textContent.includes('has ended')")
