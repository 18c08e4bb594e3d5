"""How a run over real sites is to be carried out, beside what it trains."""

from typing import NamedTuple


class Rules(NamedTuple):
    """Sites and times."""

    sites: tuple[str, ...]  # the name of client 0, of client 1, ...
    leg: float = 600.0  # seconds that a leg may take
    ping: float = 5.0  # and a sign of life
    wait: float = 0.0  # how long a lost site is waited for before its leg counts as lost
    later: bool = False  # a chain goes on with another site of the round, and the lost one comes later
    norm: float = 0.0  # how far a leg may move the model; 0: any way


class Place(NamedTuple):
    """Where a run stands, for people."""

    round: int
    rounds: int
    hop: int  # legs decided in this round
    hops: int
    holder: str  # who has the model
    present: tuple[str, ...]
    missing: tuple[str, ...]
    seconds: float  # of the last leg
    lost: int  # legs since the run began
    says: str = ""  # of the last thing that went wrong
    run: str = ""  # its id


class Desk:
    """Who starts and stops a run, as it sees them. This one does neither."""

    def at(self, place: Place) -> None:
        """Told at every hop."""

    def check(self, missing: set[str]) -> None:
        """Asked at every hop, and while a site is waited for; raises Ended where the run is to be begun anew.

        missing: sites that do not answer here.
        """

    def deserted(self) -> None:
        """Told where a leg is lost and no other site answers either; raises Ended where the run is to be begun anew."""
