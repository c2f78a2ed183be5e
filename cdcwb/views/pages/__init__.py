"""The pages of the notebooks, with their panels."""

from cdcwb.views.pages.capture import CapturePage, Explore
from cdcwb.views.pages.continuity import ContinuityPage
from cdcwb.views.pages.drift import Drift
from cdcwb.views.pages.event_log import EventLog
from cdcwb.views.pages.masks import Masks
from cdcwb.views.pages.replay import History, Replay
from cdcwb.views.pages.transactions import Transactions

__all__ = [
    "CapturePage",
    "ContinuityPage",
    "Drift",
    "EventLog",
    "Explore",
    "History",
    "Masks",
    "Replay",
    "Transactions",
]
