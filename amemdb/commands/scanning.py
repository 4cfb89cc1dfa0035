"""What every SCAN shares: its arguments, and one page of the names that match.

The guarantees of a scan are the scan index's (`amemdb.stores.names`); a page holds at most COUNT names, fewer where
names do not match or are dead.
"""

from __future__ import annotations

from collections.abc import Callable

from amemdb.commands.declare import Bytes, Cursor, Integer, Option
from amemdb.limits import SCAN_COUNT_DEFAULT
from amemdb.protocol.glob import matcher
from amemdb.stores.names import NameIndex

SCAN = (Cursor("cursor"), Option("MATCH", Bytes("pattern")), Option("COUNT", Integer("count", 1)))


def page(
    names: NameIndex,
    cursor: int,
    pattern: bytes | None,
    count: int | None,
    is_shown: Callable[[bytes], bool] = lambda name: True,
) -> tuple[bytes, list[bytes]]:
    """The next cursor, `0` at the end, and the names from `cursor` on that match and that `is_shown` lets through."""
    next_cursor, found = names.page(cursor, count or SCAN_COUNT_DEFAULT)
    matches = matcher(pattern)
    return b"%d" % next_cursor, [name for name in found if matches(name) and is_shown(name)]
