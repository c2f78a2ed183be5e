"""The pages of the notebooks: the questions of each, as panels."""

from cdcwb.views.pages.transactions import Transactions

__all__ = ["Transactions"]
