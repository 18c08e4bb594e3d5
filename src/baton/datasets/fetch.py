"""Downloading a data set over HTTPS: mirrors in turn, going on where it was cut, checksums, and an atomic finish."""

import fcntl
import hashlib
import http.client
import os
import shutil
import ssl
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from baton.datasets import find
from baton.datasets.official import DOWNLOADS, Download, Remote
from baton.errors import BadInput

CHUNK, LARGEST = 1 << 18, 4 << 30  # bytes at a time, and at most
SECONDS, TRIES = 30.0, 100  # of silence; of one mirror, as long as each brings something

Report = Callable[[str, int, int], None]  # (file, bytes so far, bytes in all or 0 where the mirror does not say)


class _Mirror(Exception):
    """A mirror did not give the file; the message says why."""


class _OnlyHttps(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not newurl.startswith("https://"):
            raise urllib.error.URLError(f"redirected to {newurl.partition(':')[0]}, which is not HTTPS")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def digest_of(path: Path, kind: str) -> str:
    """The file's checksum as official.py writes it: kind:hex."""
    with open(path, "rb") as file:
        return f"{kind}:{hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()}"


def _right(path: Path, remote: Remote) -> bool:
    return path.is_file() and digest_of(path, remote.digest.partition(":")[0]) == remote.digest


def get(
    name: str,
    root: Path,
    report: Report | None = None,
    context: ssl.SSLContext | None = None,
    downloads: Mapping[str, Download] = DOWNLOADS,
) -> Path:
    """Download a data set into its folder under root, unless it is there already; the folder."""
    find.layouts(name)
    download = downloads[name]
    folder = root / download.folder
    there = find.look(name, [root])
    if there is not None and not there.missing:
        return there.folder
    try:
        for place in (root, *(() if download.archive else (folder,))):
            place.mkdir(parents=True, exist_ok=True)
        for remote in download.remotes:
            fetch(remote, root if download.archive else folder, report, context)
        if download.archive:
            _unpack(root / download.remotes[0].file, folder)
    except _Mirror as error:
        raise BadInput(f"data: {name} cannot be downloaded ({error}); {find.wanted(name, root)}") from None
    except OSError as error:
        raise BadInput(f"data: {name} cannot be written to {root} ({error}); give another --data-dir") from None
    return folder


def fetch(remote: Remote, folder: Path, report: Report | None = None, context: ssl.SSLContext | None = None) -> Path:
    """One file from the first mirror that gives the right bytes. What came so far lies in FILE.part and is used."""
    target, part = folder / remote.file, folder / f"{remote.file}.part"
    if _right(target, remote):
        return target
    if part.exists() and not part.is_file():
        raise BadInput(f"data: {part}: is no regular file; remove it")
    opener = urllib.request.build_opener(_OnlyHttps, urllib.request.HTTPSHandler(context=context))
    with open(part, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"data: another process is downloading {target}; wait for it") from None
        except OSError:
            pass  # this file system has no locks; what comes is checked in any case
        why = []
        for mirror in remote.mirrors:
            try:
                _from(opener, mirror + remote.file, file, remote, report)
            except _Mirror as error:
                why.append(f"{mirror.split('/')[2]}: {error}")
                continue
            os.fsync(file.fileno())
            os.replace(part, target)
            return target
        if file.tell() == 0:
            part.unlink()
    raise _Mirror("; ".join(why))


def _from(
    opener: urllib.request.OpenerDirector, url: str, file: IO[bytes], remote: Remote, report: Report | None
) -> None:
    """All of the file from one mirror: cut connections are taken up again, wrong bytes are thrown away."""
    if not url.startswith("https://"):
        raise _Mirror("not HTTPS")
    for _ in range(TRIES):
        before = file.tell()
        if before and _right(Path(file.name), remote):
            return
        try:
            whole = _transfer(opener, url, file, remote.file, report)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and before:  # our part is longer than their file
                _restart(file)
                continue
            raise _Mirror(f"HTTP {error.code}") from None
        except (OSError, http.client.HTTPException) as error:
            if file.tell() <= before:
                reason = getattr(error, "reason", None) or error
                raise _Mirror(" ".join(str(reason).split()) or type(error).__name__) from None
            continue  # cut, but it brought something
        if whole and _right(Path(file.name), remote):
            return
        if whole:
            _restart(file)
            if before == 0:
                raise _Mirror("the file there has another checksum")
        elif file.tell() <= before:
            raise _Mirror("the connection was cut")
    raise _Mirror("the connection was cut again and again")


def _restart(file: IO[bytes]) -> None:
    file.seek(0)
    file.truncate()


def _transfer(
    opener: urllib.request.OpenerDirector, url: str, file: IO[bytes], name: str, report: Report | None
) -> bool:
    """One request for the bytes that are not there yet; whether all came that the mirror announced."""
    have = file.tell()
    request = urllib.request.Request(
        url, headers={"User-Agent": "baton"} | ({"Range": f"bytes={have}-"} if have else {})
    )
    with opener.open(request, timeout=SECONDS) as response:
        if have and not (response.headers.get("Content-Range") or "").startswith(f"bytes {have}-"):
            _restart(file)  # it sends everything
            have = 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else 0
        while data := response.read(CHUNK):
            _write(file, data)
            have += len(data)
            if have > LARGEST:
                _restart(file)
                raise _Mirror(f"sends more than {LARGEST:,} bytes")
            if report is not None:
                report(name, have, total)
    return have >= total


def _write(file: IO[bytes], data: bytes) -> None:
    try:
        file.write(data)
        file.flush()
    except OSError as error:
        raise BadInput(
            f"data: {file.name}: cannot be written ({error}); make room, or give another --data-dir"
        ) from None


def _unpack(archive: Path, folder: Path) -> None:
    """The archive's contents as `folder`, all at once; then the archive is no longer needed."""
    if not hasattr(tarfile, "data_filter"):
        raise BadInput(f"data: this Python cannot unpack safely; use 3.11.4 or later, or unpack {archive} yourself")
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        inside = temporary / "inside"
        inside.mkdir()
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(inside)  # which drops drives, leading slashes and ..
        else:
            with tarfile.open(archive, "r:gz") as tar:
                tar.extractall(inside, filter="data")
        found = list(inside.iterdir())
        source = found[0] if len(found) == 1 and found[0].is_dir() else inside
        if folder.exists():  # incomplete, or it would not have been fetched
            shutil.rmtree(folder)
        os.rename(source, folder)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise BadInput(f"data: {archive}: cannot be unpacked ({error}); delete it and get it again") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    archive.unlink()
