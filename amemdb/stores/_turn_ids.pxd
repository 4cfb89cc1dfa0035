"""The table of ids of a session, for `_conversation.pyx`: hashes with the numbers of their turns, in open addressing.

Nothing is ever removed. Who looks says from which number on an entry counts.
"""

cdef struct IdSlot:
    unsigned long long hash
    long long number         # of the turn; 0 for an empty slot

cdef struct IdTable:
    Py_ssize_t mask          # slots, a power of two, less one
    Py_ssize_t used
    IdSlot slots[1]


cdef inline Py_ssize_t table_bytes(Py_ssize_t slots) noexcept nogil:
    return <Py_ssize_t> sizeof(IdTable) + (slots - 1) * <Py_ssize_t> sizeof(IdSlot)


cdef inline bint is_full(const IdTable *ids) noexcept nogil:
    """Whether one more would make it slow: two thirds of the slots are used."""
    return (ids.used + 1) * 3 > (ids.mask + 1) * 2


cdef inline void put_id(IdTable *ids, unsigned long long hashed, long long number) noexcept nogil:
    cdef Py_ssize_t at = <Py_ssize_t> (hashed & <unsigned long long> ids.mask)
    while ids.slots[at].number != 0:
        at = (at + 1) & ids.mask
    ids.slots[at].hash = hashed
    ids.slots[at].number = number
    ids.used += 1


cdef inline Py_ssize_t put_live_ids(IdTable *ids, const IdTable *before, long long gone) noexcept nogil:
    """Take over what counts, the numbers above `gone`; with no table, only say how many they are."""
    cdef Py_ssize_t at, live = 0
    if before != NULL:
        for at in range(before.mask + 1):
            if before.slots[at].number > gone:
                live += 1
                if ids != NULL:
                    put_id(ids, before.slots[at].hash, before.slots[at].number)
    return live
