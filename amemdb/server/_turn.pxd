"""The compiled twin of `turn`. See `_turn.pyx`."""

from amemdb.engine._hot cimport HotPath


cdef class Turn:
    cdef object _loop
    cdef object _log
    cdef object _on_end
    cdef list _joined
    cdef dict _waiting
    cdef bint _scheduled
    cdef long long _released_offset
    cdef HotPath path

    cpdef int touch(self) except -1
    cdef int take_part(self, object sender) except -1
    cdef bint _sends(self, object sender, long long released_offset) except -1
