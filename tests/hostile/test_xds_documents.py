"""XDS documents that are read: none crashes the reader or keeps it busy for longer than its size explains."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cdcwb import CaptureError
from cdcwb.xds import parse_documents

DECLARED = b"<?xml version='1.0'?>"


@pytest.mark.parametrize(
    "document",
    [
        b"<?xml version='1.0' encoding='\x00'?><a/>",
        b"<?xml version='1.0' encoding='hex'?><a/>",
        b"<a>" * 100_000,
        b"<a>&#xD800;</a>",
        b"<!DOCTYPE a [<!ENTITY b 'x'>]><a>&b;</a>",
    ],
)
def test_what_is_no_document_is_refused(document: bytes) -> None:
    with pytest.raises(CaptureError, match="no XML document"):
        parse_documents(document)


@pytest.mark.parametrize("part", ["<!--", "<![CDATA[", "<?xml "])
def test_time_grows_with_the_size_alone(part: str, tmp_path: Path) -> None:
    path = tmp_path / "log.xds"
    path.write_bytes(DECLARED + b"<a>" + part.encode() * 300_000)
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
        "from cdcwb.xds import validate\n"
        "print(validate(open(sys.argv[1], 'rb').read())[0][:15])"
    )
    ended = subprocess.run([sys.executable, "-c", script, path], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "no XML document\n")
