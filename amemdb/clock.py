"""The one place where the serving side reads the time.

`Clock.now_ms()` is wall time in Unix milliseconds, for expiry and timestamps. It does not fall when the
system clock is set back by up to a minute: it stands still until the wall has caught up. A larger jump, in
either direction, is accepted and reported through `on_jump`. `Clock.monotonic_ns()` serves everything
internal: durations, idle times, uptime, back-off.

Everything below the server takes time as an argument, which is what makes replay, followers and the
simulator agree.

The compiled twin is `_clock.pyx`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from amemdb import native

HOLD_MS = 60_000
"""A step back of the wall clock up to this is ridden out, a larger one is followed."""


class PlainClock:
    """Wall and monotonic time. `wall_ns` and `monotonic_ns` are the sources, replaceable in tests."""

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        on_jump: Callable[[int], None] | None = None,
    ) -> None:
        self._wall_ns = wall_ns
        self.monotonic_ns = monotonic_ns
        self._on_jump = on_jump
        self._last_wall_ms = wall_ns() // 1_000_000
        self._last_mono_ms = monotonic_ns() // 1_000_000
        self._now_ms = self._last_wall_ms

    def now_ms(self) -> int:
        """Unix time in milliseconds, never falling by a minute or less."""
        wall_ms = self._wall_ns() // 1_000_000
        if wall_ms >= self._now_ms:
            if wall_ms - self._last_wall_ms > HOLD_MS:
                self._check_forward(wall_ms)
            self._now_ms = wall_ms
        elif self._now_ms - wall_ms > HOLD_MS:
            self._report(wall_ms - self._now_ms)
            self._now_ms = wall_ms
        self._last_wall_ms = wall_ms
        self._last_mono_ms = self.monotonic_ns() // 1_000_000
        return self._now_ms

    def raise_to(self, floor_ms: int) -> None:
        """Start no earlier than `floor_ms`, the time of the last frame loaded, within the same minute."""
        if 0 < floor_ms - self._now_ms <= HOLD_MS:
            self._now_ms = floor_ms

    def _check_forward(self, wall_ms: int) -> None:
        passed_ms = self.monotonic_ns() // 1_000_000 - self._last_mono_ms
        jump_ms = wall_ms - self._last_wall_ms - passed_ms
        if jump_ms > HOLD_MS:
            self._report(jump_ms)

    def _report(self, jump_ms: int) -> None:
        if self._on_jump is not None:
            self._on_jump(jump_ms)


if TYPE_CHECKING or not native.ENABLED:
    Clock = PlainClock
else:
    from amemdb._clock import Clock as Clock
