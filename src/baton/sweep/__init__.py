"""Many runs: grouped into programs, cut into chunks that fit the memory, trained, stored, and gone on with."""

from baton.sweep.chunks import Plan, Progress, plan, sweep

__all__ = ["Plan", "Progress", "plan", "sweep"]
