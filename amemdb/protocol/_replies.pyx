"""Replies as they are gathered by native code: one growing buffer, written to without an object for each reply.

The reference is `amemdb.protocol.reply`, whose shapes say what a reply looks like; here are only the few forms that
native handlers need.
"""

from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

cdef Py_ssize_t _KEPT_BYTES = 4096
"""A buffer that grew beyond this is given back when it is empty: ten thousand connections would each keep one."""


cdef class ReplyBuffer:
    """`size` bytes at `data`. Writers ask for `room`, write there and add to `size`."""

    def __dealloc__(self):
        free(self.data)

    cdef bytes take(self):
        """The bytes gathered so far, which are here no longer."""
        cdef bytes taken = self.data[:self.size]
        self.reset()
        return taken

    cdef char *room(self, Py_ssize_t count) except NULL:
        """Where the next `count` bytes may be written."""
        cdef Py_ssize_t wanted = self.size + count
        cdef char *grown
        if wanted > self.capacity or self.data == NULL:  # NULL would be an error, even where nothing is to be written
            wanted = max(wanted + (wanted >> 1), 512)
            grown = <char *> realloc(self.data, wanted)
            if grown == NULL:
                raise MemoryError
            self.data = grown
            self.capacity = wanted
        return self.data + self.size

    cdef int put(self, const char *source, Py_ssize_t count) except -1:
        """Add `count` bytes."""
        memcpy(self.room(count), source, count)
        self.size += count
        return 0

    cdef int put_bulk(self, const char *source, Py_ssize_t count) except -1:
        """Add a bulk string."""
        cdef char *at = self.room(count + 32)
        cdef Py_ssize_t size
        at[0] = b'$'
        size = 1 + decimal(at + 1, count)
        at[size] = b'\r'
        at[size + 1] = b'\n'
        memcpy(at + size + 2, source, count)
        size += 2 + count
        at[size] = b'\r'
        at[size + 1] = b'\n'
        self.size += size + 2
        return 0

    cdef void reset(self) noexcept:
        """Hold nothing."""
        self.size = 0
        if self.capacity > _KEPT_BYTES:
            free(self.data)
            self.data = NULL
            self.capacity = 0


cdef Py_ssize_t decimal(char *target, unsigned long long number) noexcept nogil:
    """Write `number` in decimal digits; how many they are, at most 20."""
    cdef char digits[20]
    cdef Py_ssize_t count = 0, at
    while True:
        digits[count] = <char> (48 + number % 10)
        count += 1
        number //= 10
        if not number:
            break
    for at in range(count):
        target[at] = digits[count - 1 - at]
    return count
