"""What crosses the network, and how long a round would take."""

from baton.ledger.prices import Prices, Rates, Traffic, Way, leg, prices, round_, seconds, step, way

__all__ = ["Prices", "Rates", "Traffic", "Way", "leg", "prices", "round_", "seconds", "step", "way"]
