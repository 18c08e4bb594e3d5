"""What crosses the network, and how long a round would take."""

from baton.ledger.count import Trace, count
from baton.ledger.prices import Prices, Rates, Traffic, Way, Work, round_, seconds, step, way
from baton.ledger.terms import Terms, terms

__all__ = [
    "Prices",
    "Rates",
    "Terms",
    "Trace",
    "Traffic",
    "Way",
    "Work",
    "count",
    "round_",
    "seconds",
    "step",
    "terms",
    "way",
]
