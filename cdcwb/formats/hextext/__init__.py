r"""Hex text and dumps: texts that spell the bytes of a capture, and which of their digits are data.

People keep captures as texts: groups of hex digits, with a word about each behind it, headings between them, a label in
front. Their prose is full of things that look like hex (``c8``, ``2005``, ``varchar(10)``, dates). The rules, from sure
to less sure, with what they are for:

* A line of nothing but groups is data when it has eight digits or more, whatever their widths. A shorter one is data
  next to a line that is.
* On a line with notes the leading groups are data up to the first thing that is none: ``0000000F 4 bytes, a length``.
  A short one (``0009``) has to look like a number in hex and stand next to a line of data; one of two digits counts
  only where the text's groups are two wide. Numbered steps (``10 run it``), dates and Unix times are notes.
* Behind a note only a group of eight digits or more counts, of even width, in the text's letter case, and not as part
  of a word, a number, quotes or brackets: line ends are often lost in copying, and so groups stick to the prose before
  them. A whole row of groups up to the line's end is data too (``read 5: 00 00 00 24 …``), where none leads the line.
* A label in brackets in front, ``[5 INSERT ]``, and lines that begin with ``#`` or ``//`` are notes. ``0x``, ``\x`` and
  commas between groups are separators.

Two digits make a byte, across groups and also across lines where a text was wrapped at an odd width. Otherwise a digit
that has no partner in its line is left out, so that damage to one line leaves the others as they are.

Dumps (``xxd``, ``hexdump -C`` and the like) have their own module: there the offsets tell what is data.
"""

from cdcwb.formats.hextext.digits import TextSource
from cdcwb.formats.hextext.dumps import read_dump, recognise
from cdcwb.formats.hextext.groups import read_hex
from cdcwb.formats.hextext.lines import Text

__all__ = ["Text", "TextSource", "read_dump", "read_hex", "recognise"]
