"""Where words begin and end, in any script, and what is more than one word.

A *token* is what stands between blanks and punctuation, with its inner punctuation: `INV-2024-0017`, `ann@example.org`,
`don't`, `C++`, `3.14` and `well-known` are one token each. What it is searched by, whole and in parts, is decided in
`analyse`. Scripts that are written without blanks between words (Chinese, Japanese, Thai, Khmer…), and Korean, whose
words carry their endings with them, give a token for each unbroken run; it is searched by its pairs of characters.

Text that is all ASCII goes through the `re` of the standard library. Anything else goes through the package `regex`,
as `re` takes no vowel sign of the scripts of India for a part of a word, and knows no scripts.

A text is given as bytes. What is not UTF-8 in them separates words and is otherwise ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import regex

from amemdb.index.text.folding import composed

PIECE_BYTES = 4096
"""A long text is read in pieces of about this size, so that nobody waits long for one."""
_SEEK_BYTES = 512
"""How far back from the end of a piece a blank is looked for; without one, a token is cut in two."""
_BLANKS = re.compile(rb"[\t-\r ]")

_JOINTS = r"(?:['’._@:/+#&=-]{1,3}"
_NARROW = re.compile(rf"[A-Za-z0-9]+{_JOINTS}[A-Za-z0-9]+|,[0-9]{{3}}(?![0-9])){{0,15}}(?:\+\+|#)?")
"""At most sixteen parts, so that no text makes one token of all of it."""
_RUNS = (
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
    r"\p{Yi}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Javanese}\p{Balinese}ー々〆]"
)
_LETTERS = rf"[[\p{{L}}\p{{M}}\p{{N}}]--{_RUNS}]"
_WIDE = regex.compile(
    rf"(?V1){_RUNS}+|{_LETTERS}+{_JOINTS}{_LETTERS}+|,[0-9]{{3}}(?![0-9])){{0,15}}(?:\+\+|#)?|\p{{Emoji_Presentation}}"
)
_RUN = regex.compile(rf"(?V1){_RUNS}")


def chunks(text: bytes) -> list[str]:
    """What of a text stands between blanks, punctuation and all. For texts of a few kilobytes; see `pieces`."""
    decoded = text.decode("utf-8", "replace")
    return (decoded if decoded.isascii() else composed(decoded)).split()


def tokens(chunk: str) -> list[str]:
    """The tokens of a chunk, in order, as they are written. None of them reaches beyond a blank."""
    found: list[str] = (_NARROW if chunk.isascii() else _WIDE).findall(chunk)
    return found


def is_run(token: str) -> bool:
    """Whether a token is of a script that is searched by pairs of characters."""
    return not token.isascii() and _RUN.match(token) is not None


def pieces(text: bytes) -> Iterator[bytes]:
    """A text in pieces of about `PIECE_BYTES`, cut between words where there is a blank, never inside a character."""
    begin = 0
    while len(text) - begin > PIECE_BYTES:
        end = _cut(text, begin + PIECE_BYTES)
        yield text[begin:end]
        begin = end
    yield text[begin:] if begin else text


def _cut(text: bytes, end: int) -> int:
    blanks = list(_BLANKS.finditer(text, end - _SEEK_BYTES, end))
    if blanks:
        return blanks[-1].end()
    for at in range(end, end - 4, -1):
        if text[at] & 0xC0 != 0x80:  # not the middle of a character
            return at
    return end
