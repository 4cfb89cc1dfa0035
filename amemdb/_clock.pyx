"""The twin of `amemdb.clock`, rule by rule: with the clocks of this machine, no reading calls Python."""

from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec

from amemdb.clock import HOLD_MS as _HOLD_MS

cdef long long HOLD_MS = _HOLD_MS


cdef inline long long _read(int which) noexcept nogil:
    cdef timespec now
    clock_gettime(which, &now)
    return <long long> now.tv_sec * 1000000000 + now.tv_nsec


cdef class Clock:
    """Wall and monotonic time, of this machine unless other sources are given."""

    def __init__(self, wall_ns=None, monotonic_ns=None, on_jump=None):
        self._wall_source = wall_ns
        self._monotonic_source = monotonic_ns
        self._on_jump = on_jump
        self._last_wall_ms = self._wall_ns() // 1000000
        self._last_mono_ms = self.monotonic_ns() // 1000000
        self._now_ms = self._last_wall_ms

    def raise_to(self, long long floor_ms):
        """Start no earlier than `floor_ms`, the time of the last frame loaded, within the same minute."""
        if 0 < floor_ms - self._now_ms <= HOLD_MS:
            self._now_ms = floor_ms

    cpdef long long now_ms(self) except? -1:
        """Unix time in milliseconds, never falling by a minute or less."""
        return self.now_ms_at(self.monotonic_ns())

    cdef long long now_ms_at(self, long long mono_ns) except? -1:
        """`now_ms`, where `monotonic_ns` has just been read."""
        cdef long long wall_ms = self._wall_ns() // 1000000, mono_ms = mono_ns // 1000000, jump_ms
        if wall_ms >= self._now_ms:
            if wall_ms - self._last_wall_ms > HOLD_MS:
                jump_ms = wall_ms - self._last_wall_ms - (mono_ms - self._last_mono_ms)
                if jump_ms > HOLD_MS:
                    self._report(jump_ms)
            self._now_ms = wall_ms
        elif self._now_ms - wall_ms > HOLD_MS:
            self._report(wall_ms - self._now_ms)
            self._now_ms = wall_ms
        self._last_wall_ms = wall_ms
        self._last_mono_ms = mono_ms
        return self._now_ms

    cpdef long long monotonic_ns(self) except? -1:
        """For durations: nanoseconds from some moment on."""
        if self._monotonic_source is not None:
            return self._monotonic_source()
        return _read(CLOCK_MONOTONIC)

    cdef long long _wall_ns(self) except? -1:
        if self._wall_source is not None:
            return self._wall_source()
        return _read(CLOCK_REALTIME)

    cdef int _report(self, long long jump_ms) except -1:
        if self._on_jump is not None:
            self._on_jump(jump_ms)
        return 0
