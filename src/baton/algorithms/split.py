"""What the split algorithms have in common: the options of a leg in split form, checked."""

from baton.errors import BadInput
from baton.seam import Split

CLIPS = ("joint", "per_side")


def checked(name: str, cut: str, head: str | None, clip: str, smash_noise: float, passes: int) -> Split:
    """The form of a leg; whether the model has these layers is said where the model is known."""
    if clip not in CLIPS:
        raise BadInput(f"algorithm: {name} has clip={clip}; 'joint' or 'per_side' is right")
    if not 0 <= smash_noise < float("inf"):
        raise BadInput(f"algorithm: {name} has smash_noise={smash_noise}; a share, 0 or more, is right")
    if passes < 0:
        raise BadInput(f"algorithm: {name} has passes={passes}; 0 (every leg has K steps) or more is right")
    return Split(cut, head or "", clip, smash_noise, passes)
