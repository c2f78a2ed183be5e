"""Lines between messages that are no part of any: what the tools say that print messages, and what people write."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_note", "remark"]

_REMARK: Final = re.compile(
    rb"Processed a total of [0-9]+ messages?\s*\Z"
    rb"|% (?:Reached end of|Reading|Auto-|Waiting|Group|Headers|ERROR|Terminated|Message|Fatal|Consumed|Exiting)"
    rb"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+\] (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) "
    rb"|\^C|SLF4J: |log4j:|OpenJDK |WARNING: |Picked up \w*JAVA\w*_OPTIONS"
    rb"|\[?[\w.-]{1,64}@[\w.-]{1,255}[ :][^\]{]{0,200}\]?[$#] "  # a prompt: user@host:folder$, [user@host folder]$
    rb"|(?:[$#>]|(?:PS )?[A-Za-z]:\\[^<>|{]{0,200}>) ?(?:\S*[/\\])?(?:kafka-|kcat|kafkacat|docker |kubectl )"
)
_MARKED: Final = re.compile(rb"(?:#|//|--|/\*|\*|==|~~|```)[^{}<>\x00-\x08]{0,400}\Z")
_TEXT: Final = re.compile(rb"""(?:[0-9]{1,3}[.):] ?|\()?[A-Za-z\x80-\xff][^{}\[\]<>"\\=\x00-\x1f\x7f]{0,400}\Z""")
_WORD: Final = re.compile(rb"\W*(?:(?:[A-Z]+|[A-Z]?[a-z]+)(?:[-_'/](?:[A-Z]+|[A-Z]?[a-z]+))*|[\x80-\xff]+)\W*\Z")
_MARK: Final = re.compile(rb"(?:[0-9]{1,3}[.):]|\([0-9]{1,3}\)[.:]?|[^A-Za-z0-9\x80-\xff]+)\Z")
_HEX: Final = re.compile(rb"[0-9A-Fa-f\s]*\Z")
_LONGEST_WORD: Final = 32
_LITERAL: Final = re.compile(rb"(?:true|false|null)\b")
_TOKEN: Final = re.compile(rb"CreateTime:|LogAppendTime:|NO_TIMESTAMP|Partition:|Offset:|Delivery:|NO_HEADERS|atMSG")


def remark(text: bytes) -> bool:
    """Is the line (without white space around it) something that a consumer, a shell or a person says, and no
    message?"""
    return _REMARK.match(text) is not None or is_note(text)


def is_note(text: bytes) -> bool:
    """Is the line (without white space around it) a heading or a comment: words without any sign of data in them?

    A part of a JSON document has quotes, brackets or a bare value in it, one of XML has tags; an encoded message is no
    word in small or in capital letters.
    """
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return False
    if _MARKED.match(text):
        return True
    if not _TEXT.match(text) or _LITERAL.match(text) or _TOKEN.match(text):
        return False
    parts = [part for part in text.split() if not _MARK.match(part)]
    if len(parts) > 1 and _HEX.match(text):
        return False
    return 2 * sum(len(part) <= _LONGEST_WORD and _WORD.match(part) is not None for part in parts) > len(parts)
