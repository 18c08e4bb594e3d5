"""What a round's hand-overs do to each site: numbers alone, for tables, figures and files."""

from typing import Any, NamedTuple

Row = list[float | None]  # a number a site; None: its rows cannot tell


class Visit(NamedTuple):
    """One client's own turn in a round."""

    site: int  # as a place in names
    hop: int
    before: float  # at its own site: handed to it
    after: float  # handed on by it
    end: float  # of the round
    sign: int  # 1 where more is better, -1 where less is

    @property
    def gain(self) -> float:
        """What its own turn gives it."""
        return self.sign * (self.after - self.before)

    @property
    def cost(self) -> float:
        """What is lost of it by the end of the round: later turns, or averaging."""
        return self.sign * (self.after - self.end)


class Hops(NamedTuple):
    """A round of a run: a metric at every site, of the model handed to each client and of what it handed on."""

    round: int  # 0 is the first
    metric: str
    best: str  # "max" or "min"
    names: list[str]  # [k] sites
    client: list[int]  # [k] who they are
    chain: bool  # whether clients hand on to one another; else they train side by side, and the server averages
    visitor: list[int]  # [hops] the client of each turn
    given: list[Row]  # [hops][k] of the model handed to it
    made: list[Row]  # [hops][k] of what it handed on
    begin: Row  # [k] of the round
    end: Row  # [k]

    def visits(self) -> list[Visit]:
        """The turns of sites that are measured, in order."""
        place, found = {m: i for i, m in enumerate(self.client)}, []
        for hop, client in enumerate(self.visitor):
            site = place.get(client)
            if site is not None:
                before, after, end = self.given[hop][site], self.made[hop][site], self.end[site]
                if before is not None and after is not None and end is not None:
                    found.append(Visit(site, hop, before, after, end, self.sign))
        return found

    @property
    def advantage(self) -> float | None:
        """How much better the round ends at the last client's own site than at the others."""
        last = self.visitor[-1] if self.chain and self.visitor else None
        own = [x for m, x in zip(self.client, self.end, strict=True) if m == last and x is not None]
        others = [x for m, x in zip(self.client, self.end, strict=True) if m != last and x is not None]
        return self.sign * (own[0] - sum(others) / len(others)) if own and others else None

    @property
    def sign(self) -> int:
        """1 where more is better, -1 where less is: gains and losses are so that more is more."""
        return 1 if self.best == "max" else -1


def from_json(table: dict[str, Any]) -> list[Hops]:
    """What a store kept."""
    return [Hops(**each) for each in table["hops"]]
