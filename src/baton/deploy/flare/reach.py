"""Why a site does not reach its server, in one line: address, port, certificate, clock."""

import datetime
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

PATIENCE = 4.0  # seconds for each of connecting and greeting
PAUSE = 5.0  # seconds between two tries
REJECTED = b"registration rejected"  # what FLARE writes where the server does not take a site in
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # how HTTP/2, and so gRPC, begins
NOT_YET, ENDED, OTHER_NAME = 9, 10, 62  # OpenSSL's numbers of what is wrong with a certificate


def why_not(startup: Path, target: str) -> str:
    """Return why the server does not speak to a kit; "" where it does.

    startup: the kit's folder of certificates. target: name:port of the server.
    """
    host, _, port = target.rpartition(":")
    if wrong := _dates(startup / "client.crt"):
        return wrong
    try:
        plain = socket.create_connection((host, int(port)), PATIENCE)
    except socket.gaierror:
        return f"address: {host!r} is not found; the name that the server's people gave, and a working DNS, is right"
    except TimeoutError:
        return f"address: nothing answers at {target} in {PATIENCE:g} s; a firewall on the way may hold it back"
    except OSError as error:
        return f"address: nothing answers at {target} ({error.strerror or error}); 'baton deploy start' runs there?"
    with plain:
        return _greeting(plain, startup, host)


def report(startup: Path, target: str, say: Callable[[str], None], over: threading.Event) -> None:
    """Try until the server speaks to this kit, and say why it does not: once for each reason."""
    said = ""
    while not over.is_set():
        why = why_not(startup, target)
        if not why:
            say(f"{target} answers" if said else "the server answers")
            return
        if why != said:
            say(f"no connection yet: {why}")
            said = why
        over.wait(PAUSE)


def rejected(log: Path, start: int) -> bool:
    """Return whether the server refused to take the site in, by what FLARE wrote from a place in its log on."""
    try:
        with log.open("rb") as file:
            file.seek(start)
            return REJECTED in file.read()
    except OSError:
        return False


def _dates(certificate: Path) -> str:
    """Return what is wrong with the dates of a kit's own certificate, by this machine's clock."""
    from cryptography import x509

    own, now = x509.load_pem_x509_certificate(certificate.read_bytes()), datetime.datetime.now(datetime.UTC)
    begin, end = own.not_valid_before_utc, own.not_valid_after_utc
    if now < begin:
        return f"clock: it is {now:%Y-%m-%d %H:%M} UTC here, and the kit's certificate begins at {begin:%Y-%m-%d %H:%M}"
    if now > end:
        return f"certificate: the kit's ended at {end:%Y-%m-%d %H:%M} UTC; a kit of a new federation is right"
    return ""


def _greeting(plain: socket.socket, startup: Path, host: str) -> str:
    """Return what is wrong with how the server answers to this kit's certificate."""
    try:
        context = ssl.create_default_context(cafile=startup / "rootCA.pem")
        context.set_alpn_protocols(["h2"])
        context.load_cert_chain(startup / "client.crt", startup / "client.key")
        plain.settimeout(PATIENCE)
        with context.wrap_socket(plain, server_hostname=host) as talk:
            talk.sendall(HELLO)  # a server that refuses our certificate says so when it is read from
            return "" if talk.recv(64) else "certificate: the server ends the connection; it may not know this kit"
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in (NOT_YET, ENDED):
            return f"clock: by this machine's clock the server's certificate is not valid ({error.verify_message})"
        if error.verify_code == OTHER_NAME:
            return f"address: the server at {host!r} has a certificate for another name ({error.verify_message})"
        return "certificate: the server's is not of this kit's federation; the kit is of another one, or out of date"
    except ssl.SSLError as error:
        return f"certificate: the server refuses this kit's ({error.reason}); it is of another federation, or has ended"
    except OSError as error:
        return f"address: the server does not speak TLS ({error.strerror or error}); a proxy on the way may be why"
