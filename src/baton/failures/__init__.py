"""Which legs do not come back, and what is done then: one rule for simulated and for real sites."""

from baton.failures.attempts import NOBODY, Walked, lost, tries, walked
from baton.failures.rules import FAILURES, POLICIES, Failing, Policy, failing, policy

__all__ = [
    "FAILURES",
    "NOBODY",
    "POLICIES",
    "Failing",
    "Policy",
    "Walked",
    "failing",
    "lost",
    "policy",
    "tries",
    "walked",
]
