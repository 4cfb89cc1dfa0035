"""Writes `engine/_hot_table.pxi` and `_hot_records.pxi`: what native code has to know of commands and records.

Names, the number of tokens of the plain shape, access and which tokens are names of 1 to 1,024 bytes all come from
the declarations, so a native handler cannot disagree with them. The file is checked in, and a test compares.
"""

from __future__ import annotations

from pathlib import Path

from amemdb.commands.declare import REGISTRY, Name, Spec, Vector
from amemdb.limits import NAME_BYTES_MAX
from amemdb.stores import records

HEADER = "# Written by `python -m amemdb.commands.generate`: do not edit."
PATH = Path(__file__).parents[1] / "engine" / "_hot_table.pxi"
RECORDS_PATH = PATH.with_name("_hot_records.pxi")

KINDS = {"amem-conv": "CONVERSATION", "amem-work": "NOTES", "amem-epis": "EVENTS", "string": "VALUE"}


def native_specs() -> list[Spec]:
    """The commands with the flag `native`."""
    return [spec for spec in REGISTRY.values() if "native" in spec.flags]


def generate_native() -> str:
    """The whole source of `_hot_table.pxi` for what is in the registry."""
    specs = native_specs()
    count = len(specs)
    lines = [HEADER, "", "cdef enum:", f"    COMMANDS = {count}", f"    NAME_BYTES_MAX = {NAME_BYTES_MAX}"]
    lines += ["", "COMMAND_NAMES = (", *(f"    {spec.name!r}," for spec in specs), ")"]
    lines += ["", f"cdef int[{count}] TOKENS = [{', '.join(str(_tokens(spec)) for spec in specs)}]"]
    lines += [f"cdef bint[{count}] WRITES = [{', '.join(str(int(spec.access == 'write')) for spec in specs)}]"]
    lines += [f"cdef bint[{count}] READS = [{', '.join(str(int(spec.access == 'read')) for spec in specs)}]"]
    lines += [f"cdef unsigned int[{count}] NAMES = [{', '.join(hex(_names(spec)) for spec in specs)}]"]
    lines += [f"cdef int[{count}] KINDS = [{', '.join(_kind(spec) for spec in specs)}]"]
    lines += [f"cdef Handler[{count}] HANDLERS = [", *(f"    {function_name(spec)}," for spec in specs), "]"]
    lines += ["", "", *_find(specs), ""]
    return "\n".join(lines)


def generate_records() -> str:
    """The whole source of `_hot_records.pxi`: the numbers of the records."""
    kinds = {name: kind for name, kind in vars(records).items() if name.isupper() and type(kind) is int}
    lines = [f"    RECORD_{name} = {kind}" for name, kind in kinds.items() if name[0] != "_" and name != "KIND_MAX"]
    return "\n".join([HEADER, "", "cdef enum:", *lines, ""])


def function_name(spec: Spec) -> str:
    """The native handler's name: that of the reference, which may end with an underscore."""
    return "run_" + spec.handler.__name__.rstrip("_")


def _tokens(spec: Spec) -> int:
    """How many tokens the plain shape has: no option, and of a vector `FP32` and its bytes."""
    return abs(spec.arity) + sum(isinstance(argument, Vector) for argument in spec.positionals)


def _names(spec: Spec) -> int:
    """One bit for each token that is a name with bounds."""
    named = [index for index, argument in enumerate(spec.positionals, spec.first) if isinstance(argument, Name)]
    return sum(1 << index for index in named)


def _kind(spec: Spec) -> str:
    """What the first argument names, in the words of `_hot_warm.pxi`."""
    return KINDS.get(spec.family, "NOTHING")


def _find(specs: list[Spec]) -> list[str]:
    """A function from a word in upper case to the command's place in the tables, -1 for none."""
    lines = ["cdef inline int place_of(const char *word, Py_ssize_t size) noexcept nogil:"]
    keyword = "if"
    for size in sorted({len(spec.name) for spec in specs}):
        lines.append(f"    {keyword} size == {size}:")
        for place, spec in enumerate(specs):
            if len(spec.name) == size:
                lines += [f'        if memcmp(word, b"{spec.name}", {size}) == 0:', f"            return {place}"]
        keyword = "elif"
    return [*lines, "    return -1"]
