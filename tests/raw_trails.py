"""Raw trail files for tests: header bytes, data and tokens that Logdump printed, put back into the records of a trail
(docs/formats/goldengate.md §3.7 and §11)."""

from __future__ import annotations

from cdcwb.formats.goldengate.layout import Order
from tests.goldengate_text import split_text
from tests.reference.logdump.printed_record import Printed, Shape

METADATA = 170
SIGNATURE = bytes.fromhex("3000000c3000000847470d0a544c0a0d")
"""A group of a file header with nothing but the signature."""


def token(letter: str, content: bytes, order: Order = "big", info: int = 0) -> bytes:
    """A token of a record: id, info, length and content."""
    return bytes([ord(letter), info]) + len(content).to_bytes(2, order) + content


def frame(content: bytes, order: Order = "big", letter: str = "G", info: int = 0) -> bytes:
    """A record: its tokens, with its length before and after them."""
    length = (len(content) + 8).to_bytes(2, order)
    return bytes([ord(letter), info]) + length + content + b"Z\0" + length


def record(printed: Printed, order: Order) -> bytes:
    """The record that Logdump printed with the bytes of its header. Logdump blanks the end of the header and, with
    RECLEN, leaves out bytes of the data: name or index come from the line Name, missing data are zero bytes."""
    header = printed.ghdr
    if printed.values["IOType"] != METADATA and printed.name is not None:
        tail = printed.name.encode() + b"\0"
        if printed.values["Partition"] & 8 and printed.name_index >= 0:
            tail = printed.name_index.to_bytes(2, order)
        header = header[:34] + tail
    content = token("H", header, order)
    if printed.length:
        content += token("D", (printed.body or b"").ljust(printed.length, b"\0"), order)
    if printed.tokens:
        area = b"".join(
            bytes([one.id, one.info]) + len(one.value).to_bytes(2, order) + one.value for one in printed.tokens
        )
        content += token("T", area, order)
    if printed.user_tokens:
        content += token("U", b"".join(f"{name}\0{value}\0".encode() for name, value in printed.user_tokens), order)
    return frame(content, order)


def raw_trail(text: bytes, order: Order) -> tuple[bytes, list[int]]:
    """A trail file with the records of Logdump text at their RBAs, and these. Zero bytes are where records are missing;
    records that were printed again are left out. A text without a file header gets one that reaches to its first
    record."""
    out, rbas = bytearray(), list[int]()
    for printed in split_text(text):
        if printed.shape is Shape.FILLER:
            continue
        if printed.shape is Shape.FILE_HEADER:
            assert not out, "one trail file is wanted"
            out += frame((printed.body or b"").ljust(printed.length, b"\0"), order, "F")
            rbas.append(0)
            continue
        if not out:
            out += frame(SIGNATURE.ljust(printed.rba - 8, b"\0"), order, "F")
        if printed.rba < len(out):
            continue
        out += bytes(printed.rba - len(out)) + record(printed, order)
        rbas.append(printed.rba)
    return bytes(out), rbas
