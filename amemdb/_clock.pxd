"""The compiled twin of `clock`. See `_clock.pyx`."""


cdef class Clock:
    cdef object _wall_source, _monotonic_source, _on_jump
    cdef long long _last_wall_ms, _last_mono_ms, _now_ms

    cpdef long long now_ms(self) except? -1
    cdef long long now_ms_at(self, long long mono_ns) except? -1
    cpdef long long monotonic_ns(self) except? -1
    cdef long long _wall_ns(self) except? -1
    cdef int _report(self, long long jump_ms) except -1
