"""An event as a record in memory, written and read without an object.

    at_ms   8 bytes   of the machine
    seq     8 bytes   the same
    flags   1 byte    1: there is metadata, 2: there is an id
    lengths           of type, content, and what else there is: 7 bits a byte, lowest first, bit 7: more follow
    bytes             of type, content, metadata, id

It never leaves the process: files and replies have forms of their own.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.string cimport memcpy

cdef enum:
    HEADER_BYTES = 17  # at_ms, seq, flags
    HAS_METADATA = 1
    HAS_ID = 2

cdef struct Key:
    long long at_ms
    long long seq

cdef struct Fields:
    Key key
    const char *type
    const char *content
    const char *metadata  # NULL for none
    const char *id  # NULL for none
    Py_ssize_t type_bytes
    Py_ssize_t content_bytes
    Py_ssize_t metadata_bytes
    Py_ssize_t id_bytes


cdef inline int fill(Fields *event, bytes kind, bytes content, bytes metadata, bytes event_id) except -1:
    """Point `event` to these, of which the last two may be None; they must outlive it."""
    event.type, event.type_bytes = PyBytes_AS_STRING(kind), len(kind)
    event.content, event.content_bytes = PyBytes_AS_STRING(content), len(content)
    event.metadata = event.id = NULL
    if metadata is not None:
        event.metadata, event.metadata_bytes = PyBytes_AS_STRING(metadata), len(metadata)
    if event_id is not None:
        event.id, event.id_bytes = PyBytes_AS_STRING(event_id), len(event_id)
    return 0


cdef inline Py_ssize_t length_bytes(Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t count = 1
    while length >= 0x80:
        length >>= 7
        count += 1
    return count


cdef inline char *put_length(char *at, Py_ssize_t length) noexcept nogil:
    while length >= 0x80:
        at[0] = <char> (length & 0x7F | 0x80)
        length >>= 7
        at += 1
    at[0] = <char> length
    return at + 1


cdef inline const char *take_length(const char *at, Py_ssize_t *length) noexcept nogil:
    cdef Py_ssize_t byte = <unsigned char> at[0], found = byte & 0x7F
    cdef int shift = 7
    while byte & 0x80:
        at += 1
        byte = <unsigned char> at[0]
        found |= (byte & 0x7F) << shift
        shift += 7
    length[0] = found
    return at + 1


cdef inline char *put_text(char *at, const char *text, Py_ssize_t count) noexcept nogil:
    memcpy(at, text, count)
    return at + count


cdef inline Py_ssize_t record_bytes(const Fields *event) noexcept nogil:
    """How long the record of `event` is."""
    cdef Py_ssize_t size = HEADER_BYTES + length_bytes(event.type_bytes) + event.type_bytes
    size += length_bytes(event.content_bytes) + event.content_bytes
    if event.metadata != NULL:
        size += length_bytes(event.metadata_bytes) + event.metadata_bytes
    if event.id != NULL:
        size += length_bytes(event.id_bytes) + event.id_bytes
    return size


cdef inline void write(char *at, const Fields *event) noexcept nogil:
    """Write the record of `event`."""
    memcpy(at, &event.key, 16)
    at[16] = (HAS_METADATA if event.metadata != NULL else 0) | (HAS_ID if event.id != NULL else 0)
    at = put_length(at + HEADER_BYTES, event.type_bytes)
    at = put_length(at, event.content_bytes)
    if event.metadata != NULL:
        at = put_length(at, event.metadata_bytes)
    if event.id != NULL:
        at = put_length(at, event.id_bytes)
    at = put_text(at, event.type, event.type_bytes)
    at = put_text(at, event.content, event.content_bytes)
    if event.metadata != NULL:
        at = put_text(at, event.metadata, event.metadata_bytes)
    if event.id != NULL:
        put_text(at, event.id, event.id_bytes)


cdef inline const char *read(const char *at, Fields *event) noexcept nogil:
    """What the record at `at` holds; where the next one begins."""
    cdef int flags = at[16]
    memcpy(&event.key, at, 16)
    at = take_length(at + HEADER_BYTES, &event.type_bytes)
    at = take_length(at, &event.content_bytes)
    event.metadata = event.id = NULL
    event.metadata_bytes = event.id_bytes = 0
    if flags & HAS_METADATA:
        at = take_length(at, &event.metadata_bytes)
    if flags & HAS_ID:
        at = take_length(at, &event.id_bytes)
    event.type = at
    event.content = at + event.type_bytes
    at = event.content + event.content_bytes
    if flags & HAS_METADATA:
        event.metadata = at
        at += event.metadata_bytes
    if flags & HAS_ID:
        event.id = at
        at += event.id_bytes
    return at


cdef inline bint before(Key one, Key other) noexcept nogil:
    """Whether `one` comes before `other`: by time, then by arrival."""
    return one.at_ms < other.at_ms or one.at_ms == other.at_ms and one.seq < other.seq
