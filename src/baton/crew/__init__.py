"""Many runs by many hands: several devices, a Ray cluster, shards of a scheduler's array; all share the pool."""

from baton.crew.where import HERE, Where, where

__all__ = ["HERE", "Where", "where"]
