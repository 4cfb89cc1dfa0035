"""Headers of blocks, for those who write them and those who compare. See `_writing.pyx`."""

from libc.stdint cimport uint8_t, uint64_t

cdef class Tail:
    cdef int _descriptor
    cdef uint64_t _number
    cdef uint64_t _keyed[8]

    cdef void _pack(
        self, uint8_t *packed, uint64_t position, uint64_t offset, uint64_t durable, const char *data, size_t size
    ) noexcept nogil
    cdef int _write(
        self, uint64_t position, uint64_t offset, uint64_t durable, const char *data, size_t size
    ) noexcept nogil
    cdef int _sync(self) noexcept nogil
