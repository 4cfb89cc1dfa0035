"""The twin of `amemdb.server.turn`, where the rules of a turn are told."""

from amemdb.engine._hot cimport HotPath
from amemdb.server._pump cimport Pump


cdef class Turn:
    """The turn that is under way. `join` what has replies, `touch` after frames that nobody waits for.

    A turn that wrote nothing asks the log nothing: what has been released changes only with `flush` and `released`.
    """

    def __init__(self, loop, log):
        self._loop = loop
        self._log = log
        self._joined = []
        self._waiting = {}
        self._on_end = self._end
        self._released_offset = log.released_offset

    def join(self, sender):
        """Have `sender` send at the end of this turn. Once a turn is enough; more does no harm."""
        self.take_part(sender)

    cpdef int touch(self) except -1:
        """Frames were appended: see that they are flushed."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._on_end)
        return 0

    def leave(self, sender):
        """`sender` is gone and waits for nothing any more."""
        self._waiting.pop(sender, None)

    def released(self):
        """The log released more: let replies go that waited for it."""
        cdef dict waiting = self._waiting
        self._released_offset = self._log.released_offset
        for sender in list(waiting):
            if not self._sends(sender, self._released_offset):
                waiting.pop(sender, None)

    cdef bint _sends(self, object sender, long long released_offset) except -1:
        """Have `sender` send what may leave; whether more waits."""
        if isinstance(sender, Pump):
            return (<Pump> sender).send_released(released_offset)
        return sender.send(released_offset)

    cdef int take_part(self, object sender) except -1:
        self._joined.append(sender)
        return self.touch()

    def _end(self):
        cdef list joined = self._joined
        self._scheduled = False
        self._joined = []
        if self.path is not None:
            self.path.commit()
        if self._log.touched:
            self._log.flush()
            self._released_offset = self._log.released_offset
        for sender in joined:
            if self._sends(sender, self._released_offset):
                self._waiting[sender] = None
