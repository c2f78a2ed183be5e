"""Avro values without a container: their schemas, many values as Arrow columns, and the field tree of one value.
:class:`Decoder` is the fast path: it processes all values in parallel, field by field. :func:`anatomy` dissects one
value and reports its errors. :func:`decode_one` is fastavro, the reference for both.
"""

from cdcwb.formats.avro.decoder import Decoded, Decoder
from cdcwb.formats.avro.schema import Schema, parse_schema
from cdcwb.formats.avro.text import to_text
from cdcwb.formats.avro.walk import anatomy, decode_one

__all__ = ["Decoded", "Decoder", "Schema", "anatomy", "decode_one", "parse_schema", "to_text"]
