"""One numbered database of plain keys. See `_database.pyx`."""

from amemdb.stores._names cimport NameIndex


cdef class Database:
    cdef readonly dict values, expires
    cdef readonly NameIndex names
    cdef readonly object wheel
    cdef public long long held_bytes
