"""Long answers of turns, encoded where the turns lie: the twin of `amemdb.commands.turns.TurnsReply.elements`.

It knows the values of a turn and their order. What stands around them comes from the reference, which takes it from the
declared shape.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from amemdb.protocol._replies cimport ReplyBuffer, decimal
from amemdb.stores._conversation cimport Cursor, Turn, Turns

cdef enum:
    PIECE_BYTES = 65536


cdef class Pieces:
    """The turns of a snapshot, some tens of kilobytes at a time; a long content is cut."""

    cdef Turns _turns
    cdef Cursor _cursor
    cdef Turn _turn
    cdef Py_ssize_t _sent
    cdef bint _inside
    cdef long long _seq
    cdef list _heads
    cdef list _labels
    cdef bytes _null
    cdef ReplyBuffer _out

    def __iter__(self):
        return self

    def __next__(self):
        cdef ReplyBuffer out = self._out
        cdef Py_ssize_t part
        while out.size < PIECE_BYTES:
            if not self._inside:
                if not self._turns.next_turn(&self._cursor, &self._turn):
                    break
                self._put(<bytes> self._heads[self._turn.role])
                self._put_length(self._turn.content_bytes)
                self._inside = True
                self._sent = 0
            part = min(self._turn.content_bytes - self._sent, max(PIECE_BYTES - out.size, 0))
            out.put(self._turn.content + self._sent, part)
            self._sent += part
            if self._sent < self._turn.content_bytes:
                break
            out.put(b"\r\n", 2)
            self._inside = False
            if self._labels:
                self._put_rest()
        if out.size == 0:
            raise StopIteration
        return out.take()

    cdef int _put(self, bytes part) except -1:
        return self._out.put(PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))

    cdef int _put_length(self, Py_ssize_t length) except -1:
        cdef char *at = self._out.room(24)
        cdef Py_ssize_t size
        at[0] = b'$'
        size = 1 + decimal(at + 1, length)
        at[size] = b'\r'
        at[size + 1] = b'\n'
        self._out.size += size + 2
        return 0

    cdef int _put_rest(self) except -1:
        """Number, time, id and meta, each behind its label."""
        self._put(<bytes> self._labels[0])
        self._put_integer(self._seq)
        self._seq += 1
        self._put(<bytes> self._labels[1])
        self._put_integer(self._turn.at_ms)
        self._put(<bytes> self._labels[2])
        self._put_text(self._turn.id, self._turn.id_bytes)
        self._put(<bytes> self._labels[3])
        self._put_text(self._turn.meta, self._turn.meta_bytes)
        return 0

    cdef int _put_integer(self, long long number) except -1:
        return self._put(b":%d\r\n" % number)

    cdef int _put_text(self, const char *text, Py_ssize_t size) except -1:
        if size < 0:
            return self._put(self._null)
        return self._out.put_bulk(text, size)


def pieces_of(Turns turns not None, Py_ssize_t begin, long long first_seq, list heads, list labels, bytes null):
    """The bytes of the turns from `begin` on, the first of which has the number `first_seq`.

    `heads` are what stands before the content of a turn, for each role; `labels` those of the rest, if it is wanted.
    """
    cdef Pieces pieces = Pieces.__new__(Pieces)
    pieces._turns = turns
    pieces._seq = first_seq
    pieces._heads = heads
    pieces._labels = labels
    pieces._null = null
    pieces._out = ReplyBuffer()
    turns.seek(begin, &pieces._cursor)
    return pieces
