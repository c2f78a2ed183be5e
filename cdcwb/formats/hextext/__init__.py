r"""Hex text and dumps: reads the bytes of a capture from texts of hex digits.

Captures are often stored as texts: groups of hex digits with notes, headings and labels. Notes may look like hex
(``c8``, ``2005``, ``varchar(10)``, dates). The rules that separate data from notes, from certain to less certain:

* A line of groups only is data if it has eight digits or more, of any widths. A shorter one is data next to a line of
  data.
* On a line with notes the leading groups are data up to the first note: ``0000000F 4 bytes, a length``. A short one
  (``0009``) must look like a number in hex and be next to a line of data; one of two digits counts only if the text's
  groups are two wide. Numbered steps (``10 run it``), dates and Unix times are notes.
* After a note only a group of eight digits or more counts, of even width, in the text's letter case, and not as part of
  a word, a number, quotes or brackets, since line ends are often lost in copying. A row of groups up to the line's end
  is data too (``read 5: 00 00 00 24 …``), if no group leads the line.
* A leading label in brackets, ``[5 INSERT ]``, and lines that begin with ``#`` or ``//`` are notes. ``0x``, ``\x`` and
  commas between groups are separators.

Two digits make a byte, across groups and also across lines of a text that was wrapped at an odd width. Otherwise a
digit without a partner in its line is left out, so that damage affects one line only.

Dumps (``xxd``, ``hexdump -C`` and the like) have their own module, which uses their offsets.
"""

from cdcwb.formats.hextext.digits import TextSource
from cdcwb.formats.hextext.dumps import read_dump, recognise
from cdcwb.formats.hextext.groups import read_hex
from cdcwb.formats.hextext.lines import Text

__all__ = ["Text", "TextSource", "read_dump", "read_hex", "recognise"]
