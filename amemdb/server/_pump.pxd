"""The compiled twin of `pump`. See `_pump.pyx`."""

from amemdb._clock cimport Clock
from amemdb.commands._session cimport Session
from amemdb.engine._hot cimport HotPath
from amemdb.engine._traffic cimport Traffic
from amemdb.protocol._requests cimport PlainRequests
from amemdb.server._outbox cimport Outbox


cdef class Pump:
    cdef public object _host
    cdef public object _transport
    cdef public object _parser
    cdef public object _pending
    cdef public Session session
    cdef readonly Outbox _outbox
    cdef public bint _open
    cdef public bint _running
    cdef public bint _scheduled
    cdef public bint _joined
    cdef public bint _reading
    cdef public bint _write_paused
    cdef public bint _blocked
    cdef public bint _ending
    cdef public long long _written_bytes
    cdef PlainRequests _requests
    cdef HotPath _path
    cdef object _turn
    cdef bint _native_turn
    cdef Traffic _traffic
    cdef object _backlog
    cdef Clock _clock
    cdef object _is_closing
    cdef bint _trusted
    cdef bytes _carried
    cdef bint _parsing
    cdef int _socket
    cdef bint _direct

    cdef int send_released(self, long long released_offset) except -1
    cdef int _join_turn(self) except -1
    cdef list _next_by_reference(self)
    cdef bint _may_run(self) except -1
    cdef int _run_slice(self, long long now_ns) except -1
    cdef int _execute_slice(self, long long now_ms, long long now_ns) except -1
    cdef bint _find_next(self, int *place, bint hot) except -1
    cdef int _send_direct(self) except -1
