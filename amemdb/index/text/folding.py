"""Letters made comparable: case and accents folded, wide and ornamental forms made plain, digits made ASCII.

Not everything that Unicode writes with a mark is an accent. One is dropped from Latin and Greek letters, where people
leave it out when they type; it stays in Cyrillic (й is not и), in kana (が is not か), in Hangul and in the scripts of
India, where it makes another letter or is a vowel. Points of vowels that Arabic and Hebrew can do without go.

`fold` works on single words. Composed and decomposed spellings of a letter come out the same, as `composed` runs over
the text first.
"""

from __future__ import annotations

import unicodedata

_PLAIN = str.maketrans(
    {"ø": "o", "đ": "d", "ł": "l", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th", "ŧ": "t", "ё": "е"}
)
"""Letters of one stroke more that have no decomposition, and the one of Cyrillic that is usually written without."""
_MARKS = ((0x0300, 0x036F), (0x0591, 0x05C7), (0x0610, 0x061A), (0x064B, 0x065F), (0x0670, 0x0670), (0x0640, 0x0640))
"""Accents that no letter composed with; points of Hebrew and Arabic; the Arabic stroke that only lengthens a line."""


class _Folding(dict[int, str]):
    """What each character is folded to, worked out when it is first met: a table for `str.translate`."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = _folded(chr(code))
        return folded


def _folded(character: str) -> str:
    code = ord(character)
    if any(first <= code <= last for first, last in _MARKS):
        return ""
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    plain = unicodedata.normalize("NFKC", character).casefold().translate(_PLAIN)
    if any(unicodedata.name(letter, "").startswith(("LATIN", "GREEK")) for letter in plain):
        spread = unicodedata.normalize("NFD", plain)
        plain = "".join(letter for letter in spread if not unicodedata.combining(letter)).translate(_PLAIN)
    return plain


_FOLDING = _Folding()


def composed(text: str) -> str:
    """`text` with letters and their marks in one character where there is such a one."""
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def fold(word: str) -> str:
    """The form in which words are compared."""
    return word.lower() if word.isascii() else word.translate(_FOLDING)


def wide_as_plain(word: str) -> str:
    """`word` in the plain forms of its characters, its case as it was."""
    return word if word.isascii() else unicodedata.normalize("NFKC", word)
