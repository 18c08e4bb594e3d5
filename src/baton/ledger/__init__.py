"""What crosses the network, and how long a round would take."""

from baton.ledger.count import Trace, count
from baton.ledger.prices import Done, Prices, Rates, Traffic, Way, round_, seconds, step, way
from baton.ledger.terms import Terms, terms

__all__ = [
    "Done",
    "Prices",
    "Rates",
    "Terms",
    "Trace",
    "Traffic",
    "Way",
    "count",
    "round_",
    "seconds",
    "step",
    "terms",
    "way",
]
