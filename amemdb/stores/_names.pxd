"""The scan index. See `_names.pyx`."""

from cpython.object cimport PyObject

cdef struct Bucket:
    PyObject **names
    unsigned int count
    unsigned int room

cdef struct Table:
    Bucket *buckets
    Py_ssize_t count
    Py_ssize_t room

cdef struct Place:
    unsigned long long position
    PyObject *name

cdef class NameIndex:
    cdef Table coarse
    cdef Table fine
    cdef Py_ssize_t split
    cdef Py_ssize_t held_bytes
    cdef Py_ssize_t count
    cdef int level
    cdef Place *found
    cdef Py_ssize_t found_room

    cdef int add_name(self, bytes name) except -1
    cdef Bucket *_bucket(self, unsigned long long position) noexcept
    cdef Py_ssize_t _gather(
        self, unsigned long long position, unsigned long long until, unsigned long long *end
    ) except -1
    cdef Py_ssize_t _buckets(self) noexcept
    cdef int _grow(self) except -1
    cdef int _shrink(self) except -1
