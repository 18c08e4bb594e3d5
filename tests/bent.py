"""Replies of a site with one field changed on their way, as a site that lies, or is broken, would send them."""

from collections.abc import Callable, Sequence

from baton.deploy import frames

Change = Callable[[object], object]


def bent(
    kind: str, where: Sequence[object], value: object, site: str = "site-1"
) -> Callable[[str, bytes, bytes], bytes]:
    """For federation.Field.bend: in a site's replies of a kind the field at this place of its head is another.

    value: what stands there then, or a function of what stood there.
    """

    def bend(who: str, _asked: bytes, got: bytes) -> bytes:
        head, body = frames.parted(got)
        says = head.get("says")
        if who != site or not isinstance(says, dict) or says.get("is") != kind:
            return got
        spot = says["has"]
        for step in where[:-1]:
            spot = spot[step]
        spot[where[-1]] = value(spot[where[-1]]) if callable(value) else value
        return frames.joined(head, [bytes(body)])

    return bend
