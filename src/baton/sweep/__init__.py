"""Many runs: grouped into programs, cut into chunks that fit the memory, trained, stored, and gone on with."""

from baton.sweep.call import Progress, sweep
from baton.sweep.planning import Plan, plan

__all__ = ["Plan", "Progress", "plan", "sweep"]
