"""Every record of a capture with its fields and its bytes, and what was marked in it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Self, cast

from cdcwb.explore import explore
from cdcwb.explore.filters import narrowing
from cdcwb.report import check_parameters, show
from cdcwb.views.making import making
from cdcwb.views.pages.sheet import Sheet
from cdcwb.views.view import is_live
from cdcwb.words import plural

if TYPE_CHECKING:
    from cdcwb.report.parameters import Parameters

__all__ = ["Explore"]


class Explore:
    """An explorer for each capture. No Spark is started."""

    def __init__(self, asked: Parameters) -> None:
        self.asked = asked
        named = asked.captures
        homes = {name: asked.folder / name if asked.folder and len(named) > 1 else asked.folder for name in named}
        with making("Making the index of the explorer") if is_live() else nullcontext():
            self.panes = {
                name: explore(one.path, one.format, homes[name], **one.options) for name, one in named.items()
            }

    @classmethod
    def open(cls, *common: Any) -> Self:
        """Open what the parameters of a notebook name: those of :func:`cdcwb.report.check_parameters`, in their
        order."""
        asked = cast(Any, check_parameters)(*common)
        show.style(asked)
        return cls(asked)

    def records(self) -> Sheet:
        """The records, those that the parameters name at first."""
        sheet = Sheet("Records")
        for name, pane in self.panes.items():
            pane.explorer.apply(narrowing(self.asked.tables, self.asked.time_from, self.asked.time_to))
            if len(self.panes) > 1:
                sheet.note(f"{name}:")
            sheet.widget(pane)
        return sheet

    def marks(self) -> Sheet:
        """What is marked now."""
        sheet = Sheet("Bookmarks")
        marks = [one for pane in self.panes.values() for one in pane.explorer.marks.rows()]
        sheet.marks(marks, total=len(marks), folder=self.asked.shown)
        indexes = [pane.explorer.index for pane in self.panes.values()]
        records, problems = sum(index.records for index in indexes), sum(index.problems for index in indexes)
        formats = " and ".join(dict.fromkeys(index.format for index in indexes))
        files = plural(sum(len(index.files) for index in indexes), "file")
        what = f"{plural(records, 'record')} in {files} of the format {formats}."
        verdict = f"{plural(problems, 'problem')}, {plural(len(marks), 'bookmark')}."
        sheet.record({"title": "Explorer", "what": what, "verdict": verdict, "tone": "warning" if problems else "good"})
        sheet.record({"format": formats, "records": records, "problems": problems, "marks": len(marks)})
        return sheet
