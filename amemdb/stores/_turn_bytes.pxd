"""The bytes of a packed turn, for `_conversation.pyx`.

=================  ===============================================================================
bytes              what
=================  ===============================================================================
1                  role (2 bits: system, user, assistant, tool), 4: has an id, 8: has a meta
8                  at_ms
1 to 5             length of the content, seven bits a byte, the lowest first
length             content
1 to 5, length     id, if it has one
1 to 5, length     meta, if it has one
1 to 5             length of all this, written so that it can be read from its end
=================  ===============================================================================

Numbers are in the order of the machine: nothing of this leaves the process.
"""

from libc.string cimport memcmp, memcpy

cdef enum:
    HAS_ID = 4
    HAS_META = 8

cdef struct Turn:
    int role                 # 0 system, 1 user, 2 assistant, 3 tool
    const char *content
    Py_ssize_t content_bytes
    long long at_ms
    const char *id
    Py_ssize_t id_bytes      # -1 without
    const char *meta
    Py_ssize_t meta_bytes    # -1 without


cdef inline int length_bytes(Py_ssize_t length) noexcept nogil:
    """How many bytes a length takes."""
    if length < 1 << 7:
        return 1
    if length < 1 << 14:
        return 2
    if length < 1 << 21:
        return 3
    return 4 if length < 1 << 28 else 5


cdef inline char *put_text(char *at, const char *text, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t length = size
    while length >= 128:
        at[0] = <char> (length & 127 | 128)
        at += 1
        length >>= 7
    at[0] = <char> length
    memcpy(at + 1, text, size)
    return at + 1 + size


cdef inline const char *take_text(const char *at, const char **text, Py_ssize_t *size) noexcept nogil:
    cdef Py_ssize_t length = <unsigned char> at[0]
    cdef int shift = 7
    if length & 128:
        length &= 127
        while True:
            at += 1
            length |= <Py_ssize_t> (<unsigned char> at[0] & 127) << shift
            if not at[0] & 128:
                break
            shift += 7
    text[0] = at + 1
    size[0] = length
    return at + 1 + length


cdef inline char *put_length_before(char *at, Py_ssize_t length) noexcept nogil:
    """Write what `_length_before` reads; where it ends."""
    cdef char *end = at + length_bytes(length)
    at = end - 1
    at[0] = <char> (length & 127)
    while length >= 128:
        at[0] |= <char> 128
        length >>= 7
        at -= 1
        at[0] = <char> (length & 127)
    return end


cdef inline Py_ssize_t length_before(const char *end) noexcept nogil:
    """The size of the whole record that ends here."""
    cdef const char *at = end - 1
    cdef Py_ssize_t length = <unsigned char> at[0] & 127
    cdef int shift = 7
    while at[0] & 128:
        at -= 1
        length |= <Py_ssize_t> (<unsigned char> at[0] & 127) << shift
        shift += 7
    return length + (end - at)


cdef inline Py_ssize_t turn_bytes(const Turn *turn) noexcept nogil:
    """What a turn takes, up to and without its closing length."""
    cdef Py_ssize_t size = 9 + length_bytes(turn.content_bytes) + turn.content_bytes
    if turn.id_bytes >= 0:
        size += length_bytes(turn.id_bytes) + turn.id_bytes
    if turn.meta_bytes >= 0:
        size += length_bytes(turn.meta_bytes) + turn.meta_bytes
    return size


cdef inline char *put_turn(char *begin, const Turn *turn, Py_ssize_t size) noexcept nogil:
    """Write a turn of `size` bytes and the closing length; where it ends."""
    cdef char *at
    begin[0] = <char> (turn.role | (HAS_ID if turn.id_bytes >= 0 else 0) | (HAS_META if turn.meta_bytes >= 0 else 0))
    memcpy(begin + 1, &turn.at_ms, 8)
    at = put_text(begin + 9, turn.content, turn.content_bytes)
    if turn.id_bytes >= 0:
        at = put_text(at, turn.id, turn.id_bytes)
    if turn.meta_bytes >= 0:
        at = put_text(at, turn.meta, turn.meta_bytes)
    return put_length_before(at, size)


cdef inline Py_ssize_t take_turn(const char *begin, Turn *turn) noexcept nogil:
    """The turn that begins here; how many bytes it takes."""
    cdef const char *end
    cdef int head = begin[0]
    turn.role = head & 3
    memcpy(&turn.at_ms, begin + 1, 8)
    end = take_text(begin + 9, &turn.content, &turn.content_bytes)
    turn.id_bytes = turn.meta_bytes = -1
    if head & HAS_ID:
        end = take_text(end, &turn.id, &turn.id_bytes)
    if head & HAS_META:
        end = take_text(end, &turn.meta, &turn.meta_bytes)
    return (end - begin) + length_bytes(end - begin)


cdef inline int role_bytes(int role) noexcept nogil:
    """How long the name of a role is."""
    if role == 2:
        return 9
    return 6 if role == 0 else 4


cdef inline int role_number(const char *name, Py_ssize_t size) noexcept nogil:
    """Which role has that name; -1 if none."""
    if size == 4:
        return 1 if memcmp(name, b"user", 4) == 0 else 3 if memcmp(name, b"tool", 4) == 0 else -1
    if size == 9:
        return 2 if memcmp(name, b"assistant", 9) == 0 else -1
    return 0 if size == 6 and memcmp(name, b"system", 6) == 0 else -1


cdef inline Py_ssize_t text_bytes_of(const Turn *turn) noexcept nogil:
    """Bytes of role, content, id and meta."""
    return role_bytes(turn.role) + turn.content_bytes + max(turn.id_bytes, 0) + max(turn.meta_bytes, 0)
