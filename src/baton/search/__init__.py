"""What is searched: the rules of a grid search, and a search over what the store holds."""

from baton.search.follow import choices, missing, next_of, reader, save, wanted
from baton.search.rules import extended

__all__ = ["choices", "extended", "missing", "next_of", "reader", "save", "wanted"]
