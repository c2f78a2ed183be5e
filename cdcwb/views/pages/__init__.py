"""The pages of the notebooks: the questions of each, as panels."""

from cdcwb.views.pages.explore import Explore
from cdcwb.views.pages.masks import Masks
from cdcwb.views.pages.transactions import Transactions

__all__ = ["Explore", "Masks", "Transactions"]
