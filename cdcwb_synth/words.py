"""Invented names, places and phrases that generated rows are made of. Nothing here belongs to a real person or company.

Texts come in several scripts, because a capture's character set decides which of them it can hold (:func:`spellable`).
"""

from __future__ import annotations

from typing import Final

__all__ = ["CITIES", "CODES", "FAMILY_NAMES", "GIVEN_NAMES", "GOODS", "PHRASES", "STATES", "spellable"]

GIVEN_NAMES: Final = (
    "Ada", "Bela", "Carla", "Dorin", "Edda", "Falk", "Gesa", "Hauke", "Ilka", "Jorin", "Katla", "Lasse", "Mirja",
    "Nuri",
    "Odile", "Piet", "Quirin", "Runa", "Sanna", "Tjark", "Ulla", "Veit", "Wanda", "Ylva", "Zeno",
    "Aimée", "Björn", "Chloë", "Jürgen", "Søren", "Márta", "Željka", "Łucja",
    "文博", "雨桐", "子墨", "思远", "晓峰", "若曦", "Ελένη", "Милена",
)  # fmt: skip

FAMILY_NAMES: Final = (
    "Adlerkamp", "Brook", "Castellan", "Dormund", "Eibenholz", "Farrow", "Grauwinkel", "Holmquist", "Iversen",
    "Jansohn",
    "Kestrel", "Lindacker", "Marlowe", "Nordhof", "O'Farrel", "Pellworm", "Quade", "Rosenquell", "Steenbeck", "Tannert",
    "Umland", "Vossberg", "Winterhaag", "Yarrow", "Zellnitz", "Grünfeld", "Müggel", "Østerby", "Beaupré", "Núñez",
    "欧阳", "司徒", "令狐", "慕容", "上官", "Παππάς", "Орлова",
)  # fmt: skip

CITIES: Final = (
    "Nordhaven", "Altwick", "Brekum", "Calverton", "Dunmere", "Eastfold", "Farnley", "Graben", "Hollin", "Isenau",
    "Kaltbach", "Lowmoor", "Marrow Bay", "Neubrunn", "Oakhurst", "Pinewater", "Redgate", "St. Alban", "Überlach",
    "Weißensund", "Åsby", "Côte-Basse", "青石镇", "云溪市", "临江县", "白鹿原", "Νέα Ακτή", "Новолесье",
)  # fmt: skip

GOODS: Final = (
    "hinge, brass", "pump 12 V", "valve 3/4\"", "cable reel", "lamp holder", "oak shelf", "steel bolt M8", "paper, A4",
    "tea, green", "coffee beans", "rain jacket", "wool socks", "bicycle bell", "mountain lamp", "ink, blue-black",
    "Schraubenschlüssel", "crème brûlée", "smörgås", "茶叶", "铜铰链", "不锈钢螺栓", "台灯", "гайка", "λάδι",
)  # fmt: skip

PHRASES: Final = (
    "left at the back door", "call before delivery", "second attempt", "customer asked for a receipt", "no remarks",
    "fragile, this side up", "returned: wrong size", "price agreed by telephone", "see the note of last week",
    "line one\nline two", "tab\there", "quote ' and \" inside", "back\\slash; semicolon, comma",
    "<b>not bold</b> & so on",
    "Grüße aus Überlach", "déjà vu à l'été", "请放在门口", "客户要求开具发票", "易碎品,小心轻放", "оставить у двери",
    "🙂 thanks 📦",
)  # fmt: skip

STATES: Final = ("NEW", "PAID", "PACKED", "SENT", "LOST", "BACK", "DONE")
CODES: Final = ("A-100", "A-101", "B-7", "B-77", "C-001", "D.4", "E_5", "F 6", "G/8", "X-999")


def spellable(texts: tuple[str, ...], charset: str) -> list[str]:
    """Those of ``texts`` that the character set ``charset`` (a Python codec name) can write, in their order."""
    spelled = []
    for text in texts:
        try:
            text.encode(charset)
        except UnicodeEncodeError:
            continue
        spelled.append(text)
    return spelled
