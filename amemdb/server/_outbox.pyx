"""The twin of `amemdb.server.outbox`: the replies of one connection, small ones in one buffer.

Native handlers write into `buffer` between `divide`, which keeps apart what waits for an earlier offset, and
`raise_offset`. Otherwise it is the reference, rule by rule.
"""

from collections import deque

from amemdb.protocol._replies cimport ReplyBuffer

cdef enum:
    COPIED_BYTES_MAX = 16384  # a longer reply is kept as the object that it is


cdef class Outbox:
    """Replies waiting to leave. `bytes_waiting` is their size."""

    def __cinit__(self):
        self.buffer = ReplyBuffer()
        self._parts = []

    def __bool__(self):
        return self.waiting_bytes() != 0

    @property
    def bytes_waiting(self):
        """Bytes of all replies that have not been taken."""
        return self.waiting_bytes()

    def put(self, bytes reply not None, long long offset):
        """Add `reply`, which may leave once `offset` is released and all that was put before has left."""
        cdef Py_ssize_t size = len(reply)
        if size == 0:
            return
        self.divide(offset)
        self.raise_offset(offset)
        if size <= COPIED_BYTES_MAX:
            self.buffer.put(reply, size)
            return
        self._shelve()
        self._parts.append(reply)
        self._held_bytes += size

    def take(self, long long released_offset):
        """Remove and return what may leave; ends the turn, so that later replies begin a group of their own."""
        cdef list taken = []
        self._open = False
        if self._older is not None:
            while self._older and self._older[0][0] <= released_offset:
                taken += self._older.popleft()[1]
            if not self._older:
                self._older = None
        if self._offset <= released_offset:
            self._shelve()
            taken += self._parts
            self._parts = []
        for part in taken:
            self._held_bytes -= len(part)
        return taken

    def clear(self):
        """Forget everything: the connection is gone."""
        self._older = None
        self._parts = []
        self._held_bytes = 0
        self.buffer.reset()

    cdef int divide(self, long long offset) except -1:
        """Keep apart what is here from a reply that may come next and waits for `offset`.

        The group for it is only begun by `raise_offset`: a handler that declines leaves no trace.
        """
        if offset > self._offset and not self._open:
            self._shelve()
            if self._parts:
                if self._older is None:
                    self._older = deque()
                self._older.append((self._offset, self._parts))
                self._parts = []
        return 0

    cdef void raise_offset(self, long long offset) noexcept:
        """What came last waits for `offset`."""
        if offset > self._offset:
            self._offset = offset
            self._open = True

    cdef bint held_back(self, long long released_offset) noexcept:
        """Whether there is something and nothing of it may leave; ends the turn then, as `take` does."""
        if self._older is not None or self._offset <= released_offset or not self.waiting_bytes():
            return False
        self._open = False
        return True

    cdef bint simple(self, long long released_offset) noexcept:
        """Whether all there is lies in `buffer` and may leave; ends the turn then, as `take` does."""
        if self._held_bytes or self._offset > released_offset:
            return False
        self._open = False
        return True

    cdef Py_ssize_t waiting_bytes(self) noexcept:
        return self._held_bytes + self.buffer.size

    cdef int _shelve(self) except -1:
        """Make a part of what lies in the buffer."""
        if self.buffer.size:
            self._held_bytes += self.buffer.size
            self._parts.append(self.buffer.take())
        return 0
