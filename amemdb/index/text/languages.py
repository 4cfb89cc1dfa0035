"""Which stemmer a word gets, by the language of its index and by its own script.

An index has one language, named by a code of ISO 639-1 (`en`, `de-at`, …) or `none`. That language's stemmer takes the
words of its script. A word of another script gets the stemmer of the language that most writes it, so that a Russian
word among English ones is stemmed as well. In an index of a language that has no stemmer, Latin words are left as they
are, since nobody knows whose they are. `none` stems nothing.

The stemmers are those of the Snowball project, through the package PyStemmer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import Stemmer

DEFAULT = b"en"
NONE = b"none"

_NAMES = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "eo": "esperanto",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}
_BUILT_IN = frozenset(Stemmer.algorithms())
CODES = tuple(sorted(code for code, name in _NAMES.items() if name in _BUILT_IN))
"""Those that this version of the stemmers knows."""

_OF_SCRIPT = {
    "CYRILLIC": "russian",
    "GREEK": "greek",
    "ARABIC": "arabic",
    "DEVANAGARI": "hindi",
    "TAMIL": "tamil",
    "ARMENIAN": "armenian",
    "LATIN": "english",
}
_WRITTEN_IN = {
    "russian": "CYRILLIC",
    "greek": "GREEK",
    "arabic": "ARABIC",
    "persian": "ARABIC",
    "hindi": "DEVANAGARI",
    "nepali": "DEVANAGARI",
    "tamil": "TAMIL",
    "armenian": "ARMENIAN",
    "yiddish": "HEBREW",
}
"""Scripts of those that are not written in Latin. Serbian is written in two; its stemmer takes both."""

Stem = Callable[[str], str]


def name_of(code: bytes) -> str:
    """The name of a language's stemmer; empty for `none` and for what there is no stemmer of."""
    primary = code.decode("ascii", "replace").lower().partition("-")[0]
    return _NAMES[primary] if primary in CODES else ""


def stemmer_of(code: bytes) -> Stem:
    """What stems a folded word without digits in an index of that language."""
    if code == NONE:
        return _unchanged
    own = name_of(code)
    names = {script: name for script, name in _OF_SCRIPT.items() if name in _BUILT_IN}
    if own:
        names[_WRITTEN_IN.get(own, "LATIN")] = own
    else:
        del names["LATIN"]
    if own == "serbian":
        names["CYRILLIC"] = own
    stems = {script: _stem(name) for script, name in names.items()}
    latin = stems.get("LATIN", _unchanged)

    def stem(word: str) -> str:
        if word.isascii():
            return latin(word)
        return stems.get(unicodedata.name(word[0], "").partition(" ")[0], _unchanged)(word)

    return stem


def _stem(name: str) -> Stem:
    # Its own cache is off: `analyse` keeps what it needs.
    stem: Stem = Stemmer.Stemmer(name, 0).stemWord
    return stem


def _unchanged(word: str) -> str:
    return word
