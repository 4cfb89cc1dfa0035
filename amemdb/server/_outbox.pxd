"""The compiled twin of `outbox`. See `_outbox.pyx`."""

from amemdb.protocol._replies cimport ReplyBuffer


cdef class Outbox:
    cdef ReplyBuffer buffer
    cdef list _parts
    cdef object _older
    cdef Py_ssize_t _held_bytes
    cdef long long _offset
    cdef bint _open

    cdef int divide(self, long long offset) except -1
    cdef void raise_offset(self, long long offset) noexcept
    cdef bint held_back(self, long long released_offset) noexcept
    cdef bint simple(self, long long released_offset) noexcept
    cdef Py_ssize_t waiting_bytes(self) noexcept
    cdef int _shelve(self) except -1
