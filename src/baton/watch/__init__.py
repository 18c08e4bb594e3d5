"""`baton watch`: the report as a live page, for this machine alone."""

from baton.watch.live import Live
from baton.watch.serve import Server, server

__all__ = ["Live", "Server", "server"]
