"""What tells a user's code from the same names with other code behind them."""

import hashlib
from collections.abc import Iterable

from baton.usercode import files
from baton.usercode.blame import ours
from baton.usercode.found import imported
from baton.usercode.objects import parts
from baton.usercode.references import references


def fingerprints(names: Iterable[str]) -> dict[str, str]:
    """Module -> 16 hex digits of the code behind these `module:factory` paths; none for Baton's own modules."""
    found: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        module = name.partition(":")[0]
        if not ours(module):
            found.setdefault(module, []).append(name)
    return {module: _of(module, own) for module, own in found.items()}


def _of(module: str, names: list[str]) -> str:
    functions = [imported("code", name, ()) for name in names]
    whole = files.fingerprint(module)
    if whole:
        return _hash((whole, *references(functions)))
    return _hash(part for function in functions for part in parts(function, {}))


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]
