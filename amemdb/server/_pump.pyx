"""The twin of `amemdb.server.pump`: the way of one read with hot commands served by `amemdb.engine._hot`.

Requests are looked at where they lie. One that is plain and hot is served on the spot, one that is plain goes to
`_execute` as a list, and where bytes are not plain the reference parser takes over: it gets the rest of the chunk,
gives one request or waits for more, and hands back what lies behind. So there is one parser at a time that holds
bytes, and only the reference says what is wrong.

A plain request that was cut off by the end of a read is carried over to the next one, once it is not long; most
requests that arrive in two pieces never meet the reference that way.

Replies leave by send(2) where that is possible, as the transport would send them, without its book-keeping: only
while the transport has nothing of its own waiting, and what the system does not take at once goes to the transport.
"""

from amemdb._clock cimport Clock
from amemdb.commands._session cimport Session
from amemdb.engine._hot cimport HotPath
from amemdb.engine._traffic cimport Traffic
from amemdb.protocol._requests cimport PlainRequests
from amemdb.server._outbox cimport Outbox
from amemdb.server._turn cimport Turn

from amemdb.errors import ProtocolError
from amemdb.protocol.request import RequestParser
from amemdb.server import backlog
from amemdb.server import pump as reference

cdef extern from "<sys/socket.h>" nogil:
    int MSG_DONTWAIT
    int MSG_NOSIGNAL
    Py_ssize_t send(int socket, const void *source, size_t count, int flags)

cdef enum:
    CARRIED_BYTES_MAX = 65536

cdef long long SLICE_REQUESTS_MAX = reference.SLICE_REQUESTS_MAX
cdef long long SLICE_NS = backlog.SLICE_NS
cdef long long SHARED_SLICE_NS = backlog.SHARED_SLICE_NS
cdef Py_ssize_t PATIENT_BYTES_MIN = backlog.PATIENT_BYTES_MIN
cdef Py_ssize_t UNSENT_HIGH = reference.UNSENT_HIGH


cdef class Pump:
    """The hot half of a connection. Flags are set by either half."""

    def __init__(self, host):
        self._host = host
        self._path = host.hot
        self._turn = host.turn
        self._native_turn = isinstance(host.turn, Turn)
        if self._native_turn:
            (<Turn> host.turn).path = host.hot
        self._traffic = host.state.traffic
        self._clock = host.clock
        self._backlog = host.backlog
        self._outbox = Outbox()
        self._requests = PlainRequests()
        self._carried = b""
        self._reading = True
        self._socket = -1

    def begin(self, transport, session):
        """Serve `session` on `transport` from now on."""
        self._transport = transport
        self._is_closing = transport.is_closing
        self.session = session
        self._trusted = session.authenticated
        self._parser = RequestParser(session.authenticated, self._host.query_bytes_max)
        self._open = True
        socket = transport.get_extra_info("socket")
        if socket is not None and transport.get_extra_info("sslcontext") is None:
            self._socket = socket.fileno()

    @property
    def unread_bytes(self):
        """Bytes received that belong to no request executed so far."""
        cdef PlainRequests requests = self._requests
        cdef Py_ssize_t count = requests.size - requests.at + len(self._carried)
        return count + self._parser.buffered_bytes if self._parsing else count

    def data_received(self, bytes data not None):
        """Take in one read of the socket and execute what is complete."""
        cdef PlainRequests requests = self._requests
        cdef long long now_ns = 0
        cdef Py_ssize_t count = len(data)
        if self._ending or not self._open:
            return
        try:
            self._traffic.input_bytes += count
            now_ns = self.session.last_active_ns = self._clock.monotonic_ns()
            if self._parsing:
                self._parser.feed(data)
            else:
                if requests.at < requests.size:
                    data = requests.rest() + data
                elif self._carried:
                    data = self._carried + data
                    self._carried = b""
                requests.hold(data)
        except BaseException as error:
            self._host.bug(error, None)
        if count >= PATIENT_BYTES_MIN and self._backlog and self._may_run():
            self._continue_later()
        else:
            self._run_slice(now_ns)

    def send(self, long long released_offset):
        """Write what the log has released; whether more waits for it. Called once per turn."""
        return self.send_released(released_offset) != 0

    def _run(self):
        """Execute a slice of the requests that are complete."""
        self._run_slice(self._clock.monotonic_ns())

    cdef bint _may_run(self) except -1:
        """Whether requests may be executed now; pauses reading when they may not because of unsent output."""
        if self._pending is not None or self._scheduled or self._ending or not self._open:
            return False
        if self._write_paused or self._outbox.waiting_bytes() > UNSENT_HIGH:
            self._blocked = True
            self._pause_reading()
            return False
        return True

    cdef int _run_slice(self, long long now_ns) except -1:
        cdef PlainRequests requests = self._requests
        if not self._may_run():
            return 0
        self._running = True
        try:
            self._execute_slice(self._clock.now_ms_at(now_ns), now_ns)
            if self._parsing or requests.at < requests.size or self._carried or self.session.query_bytes:
                self.session.query_bytes = self.unread_bytes
        finally:
            self._running = False
        self._join_turn()
        if not self._joined and self._path is not None:
            self._path.stale()  # nothing is to be sent, so no end of the turn will say so
        return 0

    def _join(self):
        """Have replies, or the end, leave at the end of this turn."""
        self._join_turn()

    cdef int _join_turn(self) except -1:
        if not self._joined and (self._ending or self._outbox.waiting_bytes()):
            self._joined = True
            if self._native_turn:
                (<Turn> self._turn).take_part(self)
            else:
                self._turn.join(self)
        return 0

    cdef int _execute_slice(self, long long now_ms, long long now_ns) except -1:
        cdef PlainRequests requests = self._requests
        cdef HotPath path = self._path
        cdef Outbox outbox = self._outbox
        cdef long long left = SLICE_REQUESTS_MAX, slice_end_ns = now_ns
        cdef long long waits_for = -1
        cdef list argv = None
        cdef bint hot
        cdef int place
        try:
            slice_end_ns += SHARED_SLICE_NS if self._backlog else SLICE_NS
            hot = path is not None and path.begin(self.session, now_ms, now_ns)
            while True:
                if not left:
                    self._continue_later()
                    break
                left -= 1
                if self._parsing:
                    argv = self._next_by_reference()
                    if argv is None:
                        break
                elif self._trusted and self._find_next(&place, hot):
                    if place >= 0:
                        # A reply that waits for nothing itself still waits for a silenced one before it.
                        outbox.divide(path.offset + 1 if path.waits(place) else self.session.reply_offset)
                        if path.serve(place, requests, outbox.buffer):
                            now_ns = self._clock.monotonic_ns()
                            path.ran(place, requests, now_ns)
                            requests.skip()
                            if path.waits(place):
                                waits_for = path.offset
                            outbox.raise_offset(max(waits_for, self.session.reply_offset))
                            if now_ns > slice_end_ns or outbox.waiting_bytes() > UNSENT_HIGH:
                                self._continue_later()
                                break
                            continue
                    argv = requests.argv()
                    requests.skip()
                elif requests.at >= requests.size or self._carry():
                    if not self._reading:
                        self._resume_reading()
                    break
                else:
                    left += 1
                    continue
                if hot:
                    path.leave()
                    if waits_for >= 0:
                        self.session.reply_offset = waits_for
                        waits_for = -1
                if not self._execute(argv, now_ms):
                    break
                self._trusted = self._parser.authenticated
                now_ns = self._clock.monotonic_ns()
                if path is not None:
                    hot = path.begin(self.session, now_ms, now_ns)
                if now_ns > slice_end_ns or outbox.waiting_bytes() > UNSENT_HIGH:
                    self._continue_later()
                    break
            if path is not None:
                path.leave()
                if not self._native_turn:
                    path.commit()
                if waits_for >= 0:
                    self.session.reply_offset = waits_for
        except BaseException as error:
            self._host.bug(error, argv)
        return 0

    cdef bint _find_next(self, int *place, bint hot) except -1:
        """Whether a plain request is at hand; then `place` is its command's in the hot path, or negative."""
        if hot:
            place[0] = self._path.next(self._requests)
            return place[0] > -2
        place[0] = -1
        return self._requests.peek() > 0

    def _carry(self):
        """What lies at hand is no whole plain request: keep a short beginning for later, else have the reference look."""
        cdef PlainRequests requests = self._requests
        cdef Py_ssize_t count = requests.size - requests.at
        if requests.peek() < 0 and count <= CARRIED_BYTES_MAX and self._trusted:
            self._carried = requests.rest()
            requests.hold(b"")
            return True
        self._parser.feed(requests.rest())
        self._parsing = True
        requests.hold(b"")
        return False

    cdef list _next_by_reference(self):
        """The next request by the reference parser, or None: more is needed, or it is refused."""
        try:
            argv = self._parser.next()
        except ProtocolError as error:
            self._refuse(error)
            return None
        if argv is None:
            if not self._reading:
                self._resume_reading()
            if not self._parser.buffered_bytes:
                self._parsing = False
            return None
        if self._parser.authenticated:
            self._requests.hold(self._parser.release())
            self._parsing = False
        return argv

    # -- replies ---------------------------------------------------------------------------------

    cdef int send_released(self, long long released_offset) except -1:
        """`send`, 1 when more waits."""
        cdef Outbox outbox = self._outbox
        cdef Py_ssize_t before
        cdef bint waiting
        self._joined = False
        if self._path is not None:
            self._path.stale()
        if not self._open or self._is_closing():
            return 0
        if outbox.held_back(released_offset):
            # Nearly every reply under `always`. What is short is looked at by `check`, once a second.
            if outbox.waiting_bytes() > CARRIED_BYTES_MAX or self._write_paused or self._blocked or self._ending:
                self._sent(True)
            return 1
        if outbox.simple(released_offset) and self._socket >= 0:
            self._send_direct()
        else:
            before = outbox.waiting_bytes()
            parts = outbox.take(released_offset)
            if parts:
                self._direct = False
                self._write(parts, before - outbox.waiting_bytes())
        waiting = outbox.waiting_bytes() != 0
        if waiting or self._write_paused or self._blocked or self._ending:
            self._sent(waiting)
        return waiting

    cdef int _send_direct(self) except -1:
        """Send what lies in the buffer, by ourselves if nothing else is on its way."""
        cdef Outbox outbox = self._outbox
        cdef Py_ssize_t size = outbox.buffer.size, sent
        if size == 0:
            return 0
        if not self._direct:
            self._direct = self._transport.get_write_buffer_size() == 0
        if self._direct:
            sent = send(self._socket, outbox.buffer.data, size, MSG_DONTWAIT | MSG_NOSIGNAL)
            if sent == size:
                outbox.buffer.reset()
            else:
                self._direct = False
                self._transport.write(outbox.buffer.take()[max(sent, 0):])
        else:
            self._transport.write(outbox.buffer.take())
        self._written_bytes += size
        self._traffic.output_bytes += size
        return 0
