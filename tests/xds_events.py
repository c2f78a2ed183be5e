"""Made-up events for documents, with every character that XML or a table_key has to write differently."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from cdcwb.formats.idm_event_log.layout import LOG
from cdcwb.xds.document import EVENT, TYPES

SPECIAL = ("\r", "\n", "\t", " ", '"', "'", "&", "<", ">", "]]>", "&amp;", "\\", "+", "=", ",", ";", "\U0001f600", "é")
SPECIAL += ("\x7f", "\x85", "\u2028", "\ufffd", "\U0001fffe", "", "a", "Z", "0", "-->", "<!DOCTYPE", "<?xml ?>")

_COLUMNS = ("fname", "lname", "photo", "usr_phone.phoneno", 'a "b" <c>&\n\t\r', " padded ")


def text(chance: random.Random, most: int = 5) -> str:
    return "".join(chance.choices(SPECIAL, k=chance.randint(0, most)))


def attribute(chance: random.Random, verb: str) -> dict[str, Any]:
    """One attribute as a parsed document would give it."""
    kind = chance.choice((None, *TYPES))
    found = {"name": chance.choice(_COLUMNS), "type": kind, "remove_all": False, "remove": None, "add": None}
    if verb == "add":
        return found | {"add": text(chance)}
    form = chance.randrange(5)
    if form == 0:
        return found | {"remove_all": True, "type": None}
    removed = ({"remove_all": True}, {"remove": text(chance)}, {"remove": text(chance)}, {})[form - 1]
    return found | removed | ({} if form == 2 else {"add": text(chance)})


def made(count: int, batch: int = 1, seed: int = 20260301) -> pa.Table:
    """Events as a parsed document would give them, ``batch`` to a document."""
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        verb = chance.choice(("add", "modify", "modify", "delete"))
        least = {"add": 0, "modify": 1, "delete": 0}[verb]
        names: set[str] = set()
        attributes = []
        for _ in range(0 if verb == "delete" else chance.randint(least, 5)):
            one = attribute(chance, verb)
            if one["name"] not in names:  # what follows the same name could be one attribute with it
                attributes.append(one)
                names.add(one["name"])
        rows.append(
            {
                "document": number // batch + 1,
                "event": number + 1,
                "verb": verb,
                "class_name": text(chance) or "usr",
                "association": chance.choice((None, text(chance), f"idu={number},table=usr,schema=indirect")),
                "attrs": attributes,
            }
        )
    return pa.Table.from_pylist(rows, schema=EVENT)


def log_rows(count: int, seed: int = 20260301) -> pa.Table:
    """Rows of the event log of types 1 to 4 that are all published and say nothing that a document does not hold."""
    chance = random.Random(seed)
    columns: dict[str, list[str | None]] = {name: [] for name in LOG.names}
    last = None
    while len(columns["record_id"]) < count:
        kind = chance.choice("1123344")
        key, table = _key(chance), chance.choice(("indirect.usr", 'in"di,rect.us\\r', "a.b c"))
        if (key, table) == last:  # would be one event with the rows before it
            continue
        last = key, table
        for column in chance.sample(_COLUMNS, 1 if kind == "4" else chance.randint(1, 4)):
            old, new = text(chance), text(chance)
            row = {
                "record_id": str(len(columns["record_id"]) + 1),
                "table_key": key,
                "status": "N",
                "event_type": kind,
                "event_time": "2026-03-01 00:00:00",
                "table_name": table,
                "column_name": None if kind == "4" else column,
                "old_value": old if kind == "2" else None,
                "new_value": None if kind == "4" or (kind in "23" and chance.random() < 0.2) else new,
            }
            for name, values in columns.items():
                values.append(row.get(name))
    return pa.table(columns, schema=LOG).slice(0, count)


def _key(chance: random.Random) -> str:
    pairs = []
    for name in chance.sample(("idu", "pk_empno", "site"), chance.choice((1, 1, 2))):
        written = text(chance).replace("\\", "\\\\").replace('"', '\\"')
        pairs.append(f'{name}="{written}"' if chance.random() < 0.5 else f"{name}={chance.randrange(10**6)}")
    return "+".join(pairs)
