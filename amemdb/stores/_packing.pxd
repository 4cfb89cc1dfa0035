"""Bytes of a record in msgpack, written straight into memory: the same that `msgpack.packb` writes, shortest forms.

Each function writes at `at` and returns where it stopped. What a value takes at most: an integer 9 bytes, bytes 5 more
than they are, nil and the head of an array 1.
"""

from libc.string cimport memcpy


cdef inline char *put_big_endian(char *at, unsigned long long number, int count_bytes) noexcept nogil:
    cdef int index
    for index in range(count_bytes):
        at[index] = <char> (number >> (8 * (count_bytes - 1 - index)))
    return at + count_bytes


cdef inline char *put_head(char *at, int count) noexcept nogil:
    """An array of `count` elements, fewer than 16."""
    at[0] = <char> (0x90 | count)
    return at + 1


cdef inline char *put_nil(char *at) noexcept nogil:
    at[0] = <char> 0xC0
    return at + 1


cdef inline char *put_integer(char *at, long long number) noexcept nogil:
    if number >= 0:
        if number < 0x80:
            at[0] = <char> number
            return at + 1
        if number <= 0xFF:
            at[0] = <char> 0xCC
            return put_big_endian(at + 1, number, 1)
        if number <= 0xFFFF:
            at[0] = <char> 0xCD
            return put_big_endian(at + 1, number, 2)
        if number <= <long long> 0xFFFFFFFF:
            at[0] = <char> 0xCE
            return put_big_endian(at + 1, number, 4)
        at[0] = <char> 0xCF
        return put_big_endian(at + 1, number, 8)
    if number >= -0x20:
        at[0] = <char> number
        return at + 1
    if number >= -0x80:
        at[0] = <char> 0xD0
        return put_big_endian(at + 1, number, 1)
    if number >= -0x8000:
        at[0] = <char> 0xD1
        return put_big_endian(at + 1, number, 2)
    if number >= -<long long> 0x80000000:
        at[0] = <char> 0xD2
        return put_big_endian(at + 1, number, 4)
    at[0] = <char> 0xD3
    return put_big_endian(at + 1, number, 8)


cdef inline char *put_bytes(char *at, const char *source, Py_ssize_t count) noexcept nogil:
    if count <= 0xFF:
        at[0] = <char> 0xC4
        at = put_big_endian(at + 1, count, 1)
    elif count <= 0xFFFF:
        at[0] = <char> 0xC5
        at = put_big_endian(at + 1, count, 2)
    else:
        at[0] = <char> 0xC6
        at = put_big_endian(at + 1, count, 4)
    memcpy(at, source, count)
    return at + count
