"""Generating a capture: same seed, same bytes; exact numbers; checked options; output that appears whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cdcwb_synth import FORMAT_OPTIONS, SynthError, generate


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("options", [{}, {"shape": "buffers", "files": 3, "cut_records": True, "compression": "gzip"}])
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, options: dict[str, Any]) -> None:
    first = content(generate("gbase8s", changes=400, seed=7, to=tmp_path / "a", **options))
    second = content(generate("gbase8s", changes=400, seed=7, to=tmp_path / "b", **options))
    other = content(generate("gbase8s", changes=400, seed=8, to=tmp_path / "c", **options))
    assert first == second
    assert first.keys() == other.keys()
    assert first["truth/changes.parquet"] != other["truth/changes.parquet"]


@pytest.mark.parametrize("changes", [0, 1, 2, 37])
def test_there_are_exactly_as_many_changes_as_asked_for(tmp_path: Path, changes: int) -> None:
    seen: list[tuple[int, int]] = []
    folder = generate(
        "gbase8s", changes=changes, seed=1, to=tmp_path / "made", on_progress=lambda done, of: seen.append((done, of))
    )
    assert pq.read_metadata(folder / "truth" / "changes.parquet").num_rows == changes
    assert seen[-1] == (changes, changes)
    told = json.loads((folder / "synth.json").read_text())
    assert told["changes"] == changes
    assert told["file_bytes"] == sum(p.stat().st_size for p in (folder / "capture").iterdir())


def test_shares_are_kept(tmp_path: Path) -> None:
    folder = generate("gbase8s", changes=6000, seed=1, to=tmp_path / "made", update_share=0.3, all_types_share=0.2)
    rows = pq.read_table(folder / "truth" / "changes.parquet", columns=["operation", "table_version"]).to_pylist()
    assert sum(row["operation"] == "UPDATE" for row in rows) / 6000 == pytest.approx(0.3, abs=0.03)
    assert sum(row["table_version"] == "106@1" for row in rows) / 6000 == pytest.approx(0.2, abs=0.03)


def test_the_number_of_columns_can_be_chosen(tmp_path: Path) -> None:
    for columns in (1, 3, 30):
        folder = generate(
            "gbase8s",
            changes=60,
            seed=1,
            to=tmp_path / str(columns),
            columns=columns,
            tables=9,
            all_types=False,
            schema_changes=0,
        )
        versions = pq.read_table(folder / "truth" / "table_versions.parquet").to_pylist()
        assert {len(row["columns"]) for row in versions} == {columns}
        assert len({row["table_version"] for row in versions}) == 9
        assert len(set(json.loads((folder / "labels.json").read_text()).values())) == 9


def test_an_unknown_option_names_the_nearest_match(tmp_path: Path) -> None:
    with pytest.raises(SynthError, match="unknown option 'update_shar'; did you mean 'update_share'"):
        generate("gbase8s", changes=1, seed=1, to=tmp_path / "made", update_shar=0.3)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": "hexdum"}, "did you mean 'hexdump'"),
        ({"files": "many"}, "'files' is a whole number"),
        ({"files": 0}, "'files' is between 1 and"),
        ({"files": 1.5}, "'files' is a whole number"),
        ({"update_share": "nan"}, "'update_share' is between 0 and 1"),
        ({"update_share": 0.8, "delete_share": 0.8}, "add up to more than 1"),
        ({"notes": "perhaps"}, "'notes' is true or false"),
        ({"charset": "klingon"}, "'klingon' is not known"),
        ({"charset": "utf-16"}, "writes ASCII in its own way"),
        ({"start": "yesterday"}, "no ISO 8601 time"),
        ({"shap": "hex", "tabels": 3}, "'shape'.*'tables'"),
    ],
)
def test_unusable_options_say_what_is_wrong(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SynthError, match=message):
        generate("gbase8s", changes=1, seed=1, to=tmp_path, **options)


def test_options_are_taken_as_text_as_a_command_line_gives_them(tmp_path: Path) -> None:
    folder = generate(
        "gbase8s", changes=20, seed=1, to=tmp_path / "made", files="2", update_share="0.5", all_types="false"
    )
    told = json.loads((folder / "synth.json").read_text())["options"]
    assert (told["files"], told["update_share"], told["all_types"]) == (2, 0.5, False)
    assert told.keys() == FORMAT_OPTIONS["gbase8s"].keys()


def test_an_unknown_format_or_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SynthError, match="did you mean 'gbase8s'"):
        generate("gbase", changes=1, seed=1, to=tmp_path)
    with pytest.raises(SynthError, match="number of changes"):
        generate("gbase8s", changes=-1, seed=1, to=tmp_path)
    with pytest.raises(SynthError, match="seed"):
        generate("gbase8s", changes=1, seed="x", to=tmp_path)  # type: ignore[arg-type]


def test_a_capture_is_replaced_only_where_asked_for(tmp_path: Path) -> None:
    generate("gbase8s", changes=20, seed=1, to=tmp_path)
    before = content(tmp_path)
    with pytest.raises(SynthError, match="already holds capture"):
        generate("gbase8s", changes=20, seed=2, to=tmp_path)
    assert content(tmp_path) == before
    generate("gbase8s", changes=20, seed=2, to=tmp_path, overwrite=True)
    assert content(tmp_path).keys() == before.keys()
    assert content(tmp_path) != before


def test_a_generation_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def stop(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate("gbase8s", changes=20, seed=1, to=tmp_path / "made", on_progress=stop)
    assert list((tmp_path / "made").iterdir()) == []
