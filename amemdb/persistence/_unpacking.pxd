"""Reading msgpack, and integers of fixed size, straight from memory that nobody vouches for. For `_replay.pyx`.

Each `take_` function is shown a place and the end of what may be read, and gives the place behind what it took; NULL
if there is something else there, or not all of it. The writing side is `amemdb.stores._packing`.
"""

from libc.stdint cimport uint64_t

ctypedef const unsigned char *Place

cdef struct Text:
    const char *data
    Py_ssize_t size


cdef inline unsigned long long big_endian(Place at, int count) noexcept nogil:
    cdef unsigned long long value = 0
    cdef int index
    for index in range(count):
        value = value << 8 | at[index]
    return value


cdef inline uint64_t little_endian(Place at, int count) noexcept nogil:
    cdef uint64_t value = 0
    while count > 0:
        count -= 1
        value = value << 8 | at[count]
    return value


cdef inline Place take_integer(Place at, Place end, long long *number) noexcept nogil:
    """An integer of 64 bits, with its sign."""
    cdef unsigned long long value
    cdef int count
    if at >= end:
        return NULL
    if at[0] < 0x80 or at[0] >= 0xE0:
        number[0] = <signed char> at[0]
        return at + 1
    if at[0] < 0xCC or at[0] > 0xD3:
        return NULL
    count = 1 << (at[0] & 3)
    if end - at <= count:
        return NULL
    value = big_endian(at + 1, count)
    if at[0] >= 0xD0:
        if count == 1:
            number[0] = <signed char> value
        elif count == 2:
            number[0] = <short> value
        elif count == 4:
            number[0] = <int> value
        else:
            number[0] = <long long> value
    elif value >> 63:
        return NULL
    else:
        number[0] = <long long> value
    return at + 1 + count


cdef inline Place take_bytes(Place at, Place end, Text *text) noexcept nogil:
    cdef unsigned long long size
    cdef int count
    if at >= end or at[0] < 0xC4 or at[0] > 0xC6:
        return NULL
    count = 1 << (at[0] - 0xC4)
    if end - at <= count:
        return NULL
    size = big_endian(at + 1, count)
    at += 1 + count
    if <unsigned long long> (end - at) < size:
        return NULL
    text.data = <const char *> at
    text.size = <Py_ssize_t> size
    return at + size


cdef inline Place take_nil(Place at, Place end) noexcept nogil:
    return at + 1 if at < end and at[0] == 0xC0 else NULL


cdef inline Place take_head(Place at, Place end, long long *count) noexcept nogil:
    """The head of an array."""
    cdef int size
    if at >= end:
        return NULL
    if at[0] & 0xF0 == 0x90:
        count[0] = at[0] & 0x0F
        return at + 1
    if at[0] != 0xDC and at[0] != 0xDD:
        return NULL
    size = 2 if at[0] == 0xDC else 4
    if end - at <= size:
        return NULL
    count[0] = <long long> big_endian(at + 1, size)
    return at + 1 + size


cdef inline Place take_field(Place at, Place end) noexcept nogil:
    """An integer, bytes, nil, true or false."""
    cdef long long number
    cdef Text text
    if at >= end:
        return NULL
    if at[0] == 0xC0 or at[0] == 0xC2 or at[0] == 0xC3:
        return at + 1
    if 0xC4 <= at[0] <= 0xC6:
        return take_bytes(at, end, &text)
    return take_integer(at, end, &number)
