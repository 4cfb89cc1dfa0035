"""Bytes of replies, gathered in one buffer. See `_replies.pyx`."""

cdef class ReplyBuffer:
    cdef char *data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity

    cdef bytes take(self)
    cdef char *room(self, Py_ssize_t count) except NULL
    cdef int put(self, const char *source, Py_ssize_t count) except -1
    cdef int put_bulk(self, const char *source, Py_ssize_t count) except -1
    cdef void reset(self) noexcept

cdef Py_ssize_t decimal(char *target, unsigned long long number) noexcept nogil
