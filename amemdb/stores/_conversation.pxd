"""Turns of a session, packed in chunks of bytes. See `_conversation.pyx`."""

from amemdb.stores._turn_bytes cimport Turn
from amemdb.stores._turn_ids cimport IdTable
from amemdb.stores._working cimport Notes

cdef struct Chunk:
    Chunk *newer
    Chunk *older
    unsigned int refs        # the conversation while it holds it, and each snapshot
    unsigned int start       # where the oldest turn begins that is still held
    unsigned int used        # where the next one will begin
    unsigned int capacity    # bytes behind this header
    unsigned int turns       # between `start` and `used`
    unsigned int text_bytes  # of those: roles, contents, ids and metas

cdef struct Cursor:
    Chunk *chunk
    unsigned int at
    unsigned int end         # of what is to be read in `chunk`
    Py_ssize_t left          # turns
    Py_ssize_t bytes_max     # what those turns hold is not more
    Py_ssize_t part          # of a snapshot

cdef class Conversation:
    cdef readonly bytes name
    cdef public Notes notes
    cdef public long long window, expire_at_ms, created_at_ms, seq
    cdef Py_ssize_t count
    cdef Chunk *_oldest
    cdef Chunk *_newest
    cdef Py_ssize_t _allocated_bytes, _text_bytes
    cdef IdTable *_ids

    cdef int append_plain(self, int role, const char *content, Py_ssize_t size, long long at_ms) except -1
    cdef void seek_newest(self, Py_ssize_t count, Cursor *cursor) noexcept
    cdef bint next_turn(self, Cursor *cursor, Turn *turn) noexcept

    cdef int _append(self, const Turn *turn, Py_ssize_t text_bytes) except -1
    cdef char *_room(self, Py_ssize_t size) except NULL
    cdef Chunk *_resized(self, Chunk *chunk, Py_ssize_t capacity) noexcept
    cdef int _begin(self, Py_ssize_t capacity) except -1
    cdef void _drop_oldest(self, Py_ssize_t excess) noexcept
    cdef void _unlink(self, Chunk *chunk) noexcept
    cdef Turn _turn_of_number(self, long long number) noexcept
    cdef int _remember(self, object turn_id) except -1
    cdef int _rebuild_ids(self) except -1
    cdef Py_ssize_t _shrink_ids(self, Py_ssize_t pages) noexcept

cdef struct Part:
    Chunk *chunk
    unsigned int start
    unsigned int end
    Py_ssize_t first         # index of its first turn in the snapshot

cdef class Turns:
    cdef Py_ssize_t count
    cdef Part *_parts
    cdef Py_ssize_t _part_count

    cdef void seek(self, Py_ssize_t index, Cursor *cursor) noexcept
    cdef bint next_turn(self, Cursor *cursor, Turn *turn) noexcept
