"""What every SCAN shares: its arguments, and one page of the names that match.

The guarantees of a scan are the scan index's (`amemdb.stores.names`); a page holds at most COUNT names, fewer where
names do not match or are dead.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from amemdb.commands.context import Sliced
from amemdb.commands.declare import Bytes, Cursor, Integer, Option
from amemdb.limits import REPLY_ELEMENTS_MAX, SCAN_COUNT_DEFAULT
from amemdb.protocol.glob import matcher
from amemdb.protocol.reply import BULK, Elements
from amemdb.stores.names import NameIndex

SCAN = (Cursor("cursor"), Option("MATCH", Bytes("pattern")), Option("COUNT", Integer("count", 1)))
STEP = 256
"""Names that are looked at at once, in some tenths of a millisecond; more are looked at in slices."""

Page = tuple[bytes, Elements]
Steps = Generator[None, None, tuple[int, Elements]]


def page(
    names: Callable[[], NameIndex],
    cursor: int,
    pattern: bytes | None,
    count: int | None,
    shown_of: Callable[[list[bytes]], list[bytes]] = lambda names: names,
) -> Sliced:
    """The next cursor, `0` at the end, and the names from `cursor` on that match and that `shown_of` lets through.

    `names` gives the index as it is, which a flush replaces.
    """
    steps = matching(names, cursor, pattern, min(count or SCAN_COUNT_DEFAULT, REPLY_ELEMENTS_MAX), shown_of)
    return Sliced(_page(steps))


def matching(
    names: Callable[[], NameIndex],
    cursor: int,
    pattern: bytes | None,
    count_max: int,
    shown_of: Callable[[list[bytes]], list[bytes]],
) -> Steps:
    """The same in steps: the cursor as a number, and names out of the next `count_max`."""
    matches = matcher(pattern)
    everything = pattern is None or pattern == b"*"
    shown = Elements(BULK)
    while True:
        cursor, found = names().page(cursor, min(count_max, STEP))
        count_max -= len(found)
        if not everything:
            found = [name for name in found if matches(name)]
        shown.add(shown_of(found))
        if cursor == 0 or count_max <= 0:
            return cursor, shown
        yield


def _page(steps: Steps) -> Generator[None, None, Page]:
    cursor, shown = yield from steps
    return b"%d" % cursor, shown
