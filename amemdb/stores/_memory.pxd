"""The ledger of what the stores hold, and sizes of objects. See `memory.py`."""

cdef enum:
    SMALL_BYTES_MAX = 512
    BYTES_HEAD = 33


cdef inline Py_ssize_t text_bytes(Py_ssize_t count) noexcept nogil:
    """`memory.text`."""
    if count <= 1:
        return 0
    count += BYTES_HEAD
    return (count + 15 if count <= SMALL_BYTES_MAX else count + 23) & ~15


cdef class Ledger:
    cdef public long long conversation, working, semantic, episodic, summary, keyspace, graveyard

    cdef long long held_bytes(self) noexcept
