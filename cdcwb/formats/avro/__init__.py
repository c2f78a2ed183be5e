"""Avro values without a container: their schemas, many at once as Arrow columns, and one taken apart.

:class:`Decoder` is the fast path: it moves through all values side by side, field by field. :func:`anatomy` is the
readable one; it decides what is wrong with a value. :func:`decode_one` is fastavro, which both are held against.
"""

from cdcwb.formats.avro.decoder import Decoded, Decoder
from cdcwb.formats.avro.schema import Schema, parse_schema
from cdcwb.formats.avro.text import to_text
from cdcwb.formats.avro.walk import anatomy, decode_one

__all__ = ["Decoded", "Decoder", "Schema", "anatomy", "decode_one", "parse_schema", "to_text"]
