"""What replies have promised, and what a restart therefore has to bring back.

A reply promises that the log comes back at least up to the offset that it tells of: a write's reply that its own frame
does, and under `always` any reply about data that all does which was there when it ran (`journal` says what is known of
that). It counts from the moment at which it leaves the server.

* A kill keeps all that was promised, under any policy.
* A power cut keeps what was promised under `always`. Of what was promised under `everysec` it keeps all but the last
  second, and what the disk takes: for a sync that was under way when the write was answered, for what then held up the
  next one, and for that one. While the log cannot be written, nothing new is promised, and time does not count.
* Only under `no` may a failure of the disk come when memory has let go of what no sync has covered. Such frames can be
  read for as long as the machine runs; a power cut may take them, and the log may be refused then (`forgot`).

While the disk has no fault, nothing is refused; some seconds behind one no longer, however slow the disk is.
"""

from __future__ import annotations

import heapq
from collections import deque

from amemdb.persistence.log import Log
from tests.simulation.journal import Journal, Request, Violation, is_discard, is_refusal
from tests.simulation.schedule import MS, S

RECOVERY_S = 2.5
"""How long after the end of a fault writes may still be refused, besides the time that the disk takes."""
SLACK_NS = 20 * MS
"""What turns of the loop and the like take."""


class Promises:
    """Those of one world, since its last start."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._kept_at_kill = 0
        self._kept_at_power_cut = 0
        self._everysec: deque[tuple[int, int]] = deque()
        """When a write was answered under `everysec`, and which offset that promised."""
        self._steps: list[tuple[int, int]] = []
        """Begin and end of what the disk does for the log."""
        self._failing_since_ns: int | None = None
        self._ended_ns = 0
        self.forgot = False
        self.healed_ns: int | None = None
        """When the last fault of this life was over; None if there was none."""

    # -- what happens ------------------------------------------------------------------------------

    def told(self, request: Request, policy: str, now_ns: int) -> None:
        """A reply has left the server, and it was no refusal."""
        if not request.gated or is_discard(request.reply):
            return
        if policy == "always":
            offset = self._journal.seen(request)
            self._kept_at_power_cut = max(self._kept_at_power_cut, offset)
        else:
            offset = self._journal.made(request)
            if offset and policy == "everysec":
                self._everysec.append((now_ns, offset))
        self._kept_at_kill = max(self._kept_at_kill, offset)

    def told_of_everything(self, offset: int) -> None:
        """The server has stopped in order and says that all is on disk, up to `offset`."""
        self._kept_at_kill = self._kept_at_power_cut = offset

    def step(self, begin_ns: int, end_ns: int) -> None:
        """The disk has something to do for the log."""
        self._steps.append((begin_ns, end_ns))

    def fails(self, log: Log, now_ns: int) -> None:
        """The log cannot be written from now on."""
        self._failing_since_ns = now_ns
        self.forgot |= log.durable_offset < log.offset - log.kept_bytes

    def works(self) -> None:
        """It can be written again, and everything is."""
        self._failing_since_ns = None

    def ended(self, now_ns: int) -> None:
        """The process is gone."""
        self._ended_ns = self._failing_since_ns or now_ns

    # -- what has to be ----------------------------------------------------------------------------

    def require_reason(self, request: Request, now_ns: int) -> None:
        """`request` was refused, and the disk has no fault at the moment."""
        assert is_refusal(request.reply)
        if self.healed_ns is None:
            raise Violation(f"{request.argv!r} was refused without a fault: {request.reply}")
        well_ns = now_ns - self.healed_ns - self._longest_ns(self.healed_ns, now_ns)
        if well_ns > RECOVERY_S * S:
            raise Violation(f"{request.argv!r} was refused {well_ns / S} s after the last fault: {request.reply}")

    def require_kept(self, offset: int, *, power: bool) -> None:
        """The log came back up to `offset`, after a kill or a power cut."""
        if power and self.forgot:
            return
        promised = self._kept_at_power_cut if power else self._kept_at_kill
        if offset < promised:
            raise Violation(f"the log came back up to {offset}, but {promised} was promised")
        lost_ns = next((told_ns for told_ns, end in self._everysec if end > offset), None)
        if lost_ns is not None and power:
            allowed_ns = S + self._longest_ns(lost_ns, self._ended_ns) + SLACK_NS
            ago_ns = self._ended_ns - lost_ns
            if ago_ns > allowed_ns:
                raise Violation(f"what was answered {ago_ns / S:.3f} s ago is lost; allowed are {allowed_ns / S:.3f} s")

    def begin(self, offset: int) -> None:
        """A life begins with what is on disk up to `offset`."""
        self._kept_at_kill = self._kept_at_power_cut = offset
        self._everysec.clear()
        self._steps.clear()
        self._failing_since_ns = None

    def _longest_ns(self, since_ns: int, until_ns: int) -> int:
        """How long the three longest things took, together, that the disk did at any moment of that time."""
        spent = (end - begin for begin, end in self._steps if begin < until_ns and end > since_ns)
        return sum(heapq.nlargest(3, spent))
