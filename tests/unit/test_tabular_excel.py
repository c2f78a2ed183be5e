"""Rows of Excel workbooks: every cell becomes a text that loses nothing, every row is accounted for."""

from __future__ import annotations

import datetime as dt
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from cdcwb.errors import OptionError
from cdcwb.formats.containers.rows import TableName, text_rows
from cdcwb.formats.containers.table_probe import probe_file
from cdcwb.formats.containers.tables import find_part, read_parts
from cdcwb.formats.table_rows import TableFile
from cdcwb.formats.table_splits import RowScan, cut, read_range
from cdcwb.model import Kind, OffsetUnit


def book(path: Path, *sheets: tuple[str, list[list[Any]]], hidden: tuple[str, ...] = ()) -> str:
    made = openpyxl.Workbook()
    made.remove(made.active)
    for title, rows in sheets:
        sheet = made.create_sheet(title)
        sheet.sheet_state = "hidden" if title in hidden else "visible"
        for number, row in enumerate(rows, 1):
            for place, value in enumerate(row, 1):
                sheet.cell(number, place, value)
    made.save(path)
    return str(path)


def edited(path: str, name: str, before: str, after: str) -> str:
    """The workbook with one text in one of its parts replaced."""
    with zipfile.ZipFile(path) as archive:
        parts = {one: archive.read(one) for one in archive.namelist()}
    text = parts[name].decode()
    assert before in text
    parts[name] = text.replace(before, after).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for one, content in parts.items():
            archive.writestr(one, content)
    return path


def with_shared(path: Path, inside: str) -> str:
    """A workbook whose cell B2 is a shared string, given as the XML inside it, as Excel itself writes all texts."""
    made = book(path, ("log", [["id", "value"], [1, "PLACE"], [2, None]]))
    cell = '<c r="B2" t="inlineStr"><is><t>PLACE</t></is></c>'
    edited(made, "xl/worksheets/sheet1.xml", cell, '<c r="B2" t="s"><v>0</v></c>')
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    entry = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{kind}"/></Types>'
    edited(made, "[Content_Types].xml", "</Types>", entry)
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr("xl/sharedStrings.xml", f'<sst xmlns="{space}"><si>{inside}</si></sst>')
    return made


def rows_of(path: str, **options: Any) -> list[tuple[str | None, ...]]:
    file = probe_file(path, **options)
    found: list[tuple[str | None, ...]] = []
    for part in read_parts(file):
        some = text_rows(part, file.columns)
        found += [] if some is None else zip(*(column.to_pylist() for column in some.columns), strict=True)
    assert found[:200] == list(file.sample)
    return found


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Jack", "Jack"),
        ("0012", "0012"),
        ("a\nb", "a\nb"),
        (" two  blanks ", " two  blanks "),
        ("值, 値", "值, 値"),
        (12, "12"),
        (1.0, "1"),
        (-3.0, "-3"),
        (2.5, "2.5"),
        (0.1, "0.1"),
        (123456789012345, "123456789012345"),
        (1e20, "100000000000000000000"),
        (1e300, "1e+300"),
        (True, "true"),
        (False, "false"),
        (dt.datetime(2024, 1, 31, 9, 8, 7), "2024-01-31T09:08:07"),
        (dt.datetime(2024, 1, 31, 9, 8, 7, 125000), "2024-01-31T09:08:07.125"),
        (dt.datetime(2024, 1, 31), "2024-01-31T00:00:00"),
        (dt.date(2024, 1, 31), "2024-01-31"),
        (dt.time(9, 8, 7), "09:08:07"),
        (dt.timedelta(hours=26, minutes=3, seconds=4), "26:03:04"),
        ("#N/A", "#N/A"),
        (None, None),
    ],
)
def test_a_cell_is_the_text_of_its_value(tmp_path: Path, value: Any, text: str | None) -> None:
    path = book(tmp_path / "a.xlsx", ("log", [["id", "value"], [1, value]]))
    assert rows_of(path) == [("1", text)]


@pytest.mark.parametrize(
    ("inside", "text"),
    [
        ("<t>Jack</t>", "Jack"),
        ("<t xml:space='preserve'> a </t>", " a "),
        ("<t>a_x000D_b _xZ_</t>", "a\rb _xZ_"),
        ("<r><t>Ja</t></r><r><rPr/><t>ck</t></r><rPh sb='0' eb='1'><t>ZZ</t></rPh>", "Jack"),
        ("<t></t>", ""),
        ("", ""),
    ],
)
def test_shared_texts_are_what_excel_shows_and_an_empty_one_is_not_null(tmp_path: Path, inside: str, text: str) -> None:
    assert rows_of(with_shared(tmp_path / "a.xlsx", inside)) == [("1", text), ("2", None)]


def test_escapes_in_texts_of_the_cells_themselves_are_characters(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", ("log", [["id", "value"], [1, "a_x000D_b _x005F_x000D_"]]))
    assert rows_of(path) == [("1", "a\rb _x000D_")]


def test_half_of_a_surrogate_pair_stays_as_it_is_written(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", ("log", [["id", "value"], [1, "a_xD83D_b_x000D_"]]))
    assert rows_of(path) == [("1", "a_xD83D_b\r")]


def test_every_row_of_the_sheet_is_accounted_for(tmp_path: Path) -> None:
    rows = [[], ["id", "value"], [1, "a"], [], [], [2], [3, "c", "too", "much"], [4, "d"]]
    file = probe_file(book(tmp_path / "a.xlsx", ("log", rows)))
    assert (file.kind, file.names, file.first, file.header) == ("excel", ("id", "value"), 2, True)
    segments, gaps, values = [], [], []
    for part in read_parts(file):
        assert part.unit is OffsetUnit.ROW
        segments += zip(part.offset.tolist(), part.length.tolist(), strict=True)
        gaps += [(int(part.offset[gap.index]), gap.kind, gap.reason) for gap in part.gaps]
        found = text_rows(part, file.columns)
        if found is not None:
            ((index, rows),) = part.rows
            assert rows.raw() is None
            values += zip(part.offset[index].tolist(), *(column.to_pylist() for column in found.columns), strict=True)
    assert segments == [(0, 2), (2, 1), (3, 2), (5, 1), (6, 1), (7, 1)]
    assert gaps == [
        (0, Kind.FILLER, "header line"),
        (3, Kind.FILLER, "rows without values"),
        (6, Kind.MALFORMED, "expected 2 cells, found 4"),
    ]
    assert values == [(2, "1", "a"), (5, "2", None), (7, "4", "d")]
    part, index = find_part(file, 5)
    assert int(part.offset[index]) == 5


def test_without_a_header_line_there_are_as_many_columns_as_values(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", ("log", [[1, "idu=1", "N"], [2, "idu=1", "N", 4]]))
    file = probe_file(path)
    assert (file.names, file.width, file.first) == (None, 4, 0)
    assert file.sample == (("1", "idu=1", "N", None), ("2", "idu=1", "N", "4"))
    assert probe_file(path, header=True).names == ("1", "idu=1", "N")


def test_the_sheet_is_the_first_visible_one_with_values_or_the_one_that_is_asked_for(tmp_path: Path) -> None:
    sheets = [("secret", [["a"], [1]]), ("empty", []), ("Log", [["b"], [2]]), ("more", [["c"], [3]])]
    path = book(tmp_path / "a.xlsx", *((title, rows) for title, rows in sheets), hidden=("secret",))
    file = probe_file(path)
    assert file.settings == {"sheet": "Log", "sheets": ["secret", "empty", "Log", "more"]}
    assert rows_of(path) == [("2",)]
    assert rows_of(path, sheet="secret") == [("1",)]
    assert rows_of(path, sheet="log") == [("2",)]
    with pytest.raises(OptionError, match="Did you mean 'more'"):
        probe_file(path, sheet="mores")
    assert probe_file(path, sheet="empty").sample == ()
    assert list(read_parts(probe_file(path, sheet="empty"))) == []


def test_dimensions_that_are_wrong_hide_nothing(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", ("log", [["id", "value"], [1, "a"], [2, "b"]]))
    edited(path, "xl/worksheets/sheet1.xml", '<dimension ref="A1:B3"', '<dimension ref="A1"')
    assert rows_of(path) == [("1", "a"), ("2", "b")]


def test_a_sheet_is_one_stretch_and_any_rows_of_it_can_be_read(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", ("log", [["id"], *([number] for number in range(9000))]))
    file = probe_file(path, limit=5)
    assert len(file.sample) == 5
    (stretch,) = cut([TableFile(table=TableName(None, "t"), probe=file)], 64)
    parts = read_range(stretch, RowScan(0, 0))
    assert sum(len(part.offset) for part in parts) == 9001
    (part,) = read_parts(file, 5000, 5003)
    found = text_rows(part, ("id",))
    assert found is not None
    assert found.columns[0].to_pylist() == ["4999", "5000", "5001"]


def test_damage_ends_the_rows_and_is_told(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", ("log", [["id", "value"], [1, 5], [2, 6]]))
    edited(path, "xl/worksheets/sheet1.xml", "<v>6</v>", "<v>six</v>")
    file = probe_file(path)
    gaps = [(int(part.offset[gap.index]), gap.reason) for part in read_parts(file) for gap in part.gaps]
    assert gaps[1][0] == 2
    assert "cannot be read from row 3 on" in gaps[1][1]
    assert file.sample == (("1", "5"),)


def test_a_workbook_that_is_cut_off_is_broken(tmp_path: Path) -> None:
    path = Path(book(tmp_path / "a.xlsx", ("log", [["id"], [1]])))
    path.write_bytes(path.read_bytes()[:-200])
    file = probe_file(str(path))
    assert file.kind == "broken"
    assert "zip archive" in str(file.problem)


def test_other_archives_are_told_from_workbooks(tmp_path: Path) -> None:
    for name, reason in (("xl/workbook.bin", ".xlsb"), ("content.xml", "not an Excel workbook")):
        path = tmp_path / "a.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, b"x")
        assert reason in str(probe_file(str(path)).problem)
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/workbook.xml", b"<x/>")
    assert "cannot be read" in str(probe_file(str(path)).problem)
