"""Events in the order of their time, packed. See `_timeline.pyx`."""

from amemdb.stores._event cimport Fields, Key

cdef struct Chunk:
    Key first
    char *data
    Py_ssize_t begin
    Py_ssize_t used
    Py_ssize_t capacity
    Py_ssize_t count
    unsigned long long types[2]

cdef class Timeline:
    cdef Chunk *chunks
    cdef Py_ssize_t begin
    cdef Py_ssize_t end
    cdef Py_ssize_t room
    cdef Py_ssize_t count
    cdef Py_ssize_t chunk_bytes
    cdef Key last
    cdef Py_ssize_t changes

    cdef Py_ssize_t held_bytes(self) noexcept
    cdef int put(self, const Fields *event) except -1
    cdef Key oldest_key(self) noexcept
    cdef int nth_newest_fields(self, Py_ssize_t index, Fields *event) except -1
    cdef Py_ssize_t count_before_key(self, Key key) noexcept
    cdef list slice(self, Py_ssize_t begin, Py_ssize_t end)
    cdef Timeline drop(self, Py_ssize_t count)
    cdef Timeline _without_all(self)
    cdef Timeline _without_first(self, Py_ssize_t chunk_count, Py_ssize_t count)
    cdef int _enlarge(self, Chunk *chunk, Py_ssize_t size) except -1
    cdef int _open_chunk(self, Py_ssize_t size) except -1
    cdef int _insert(self, const Fields *event, Py_ssize_t size) except -1
    cdef int _split(self, Py_ssize_t at) except -1
    cdef int _make_room(self) except -1
    cdef Py_ssize_t _chunk_of(self, Key key) noexcept
    cdef Py_ssize_t _count_between(self, Key low, Key high, const char *type, Py_ssize_t type_bytes) noexcept
