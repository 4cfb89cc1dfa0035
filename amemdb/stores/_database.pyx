"""The twin of `amemdb.stores.keyspace.PlainDatabase`: the same fields, reached by native handlers without a look-up."""

from amemdb.stores._names cimport NameIndex

from amemdb.stores.wheel import Wheel


cdef class Database:
    """One numbered database."""

    def __init__(self):
        self.values = {}
        self.expires = {}
        self.names = NameIndex()
        self.wheel = Wheel()
