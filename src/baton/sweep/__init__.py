"""Many runs: grouped into programs, cut into chunks that fit the memory, trained, stored, and gone on with."""

from baton.sweep.call import Progress, Shard, sweep
from baton.sweep.planning import Cut, Plan, plan

__all__ = ["Cut", "Plan", "Progress", "Shard", "plan", "sweep"]
