"""Plain requests, cut out of the bytes that were received. See `_requests.pyx`."""

cdef enum:
    TOKENS_MAX = 16

cdef struct Token:
    const char *data
    Py_ssize_t size

cdef class PlainRequests:
    cdef bytes chunk
    cdef const char *data
    cdef Py_ssize_t size
    cdef Py_ssize_t at
    cdef Py_ssize_t end
    cdef Py_ssize_t count
    cdef Token tokens[TOKENS_MAX]

    cdef int hold(self, bytes chunk) except -1
    cdef Py_ssize_t peek(self) noexcept
    cdef void skip(self) noexcept
    cdef list argv(self)
    cdef bytes rest(self)
