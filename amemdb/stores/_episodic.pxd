"""One agent's events, packed. See `_episodic.pyx`."""

from amemdb.stores._timeline cimport Timeline

cdef class EventLog:
    cdef public long long maxlen
    cdef public long long maxage_ms
    cdef public long long next_seq
    cdef public long long due_ms
    cdef readonly Timeline events
    cdef readonly dict ids

    cpdef long long live_from_ms(self, long long now_ms) noexcept
    cdef bint plain(self) noexcept
    cdef int log_plain(
        self, const char *type, Py_ssize_t type_bytes, const char *content, Py_ssize_t content_bytes, long long at_ms
    ) except -1
    cdef int _remember(self, long long at_ms, long long seq, bytes event_id) except -1
