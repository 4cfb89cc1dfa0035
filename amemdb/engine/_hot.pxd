"""The hot path. See `_hot.pyx`."""

from amemdb.commands._session cimport Session
from amemdb.protocol._replies cimport ReplyBuffer
from amemdb.protocol._requests cimport PlainRequests, Token
from amemdb.stores._memory cimport Ledger

cdef enum:
    AHEAD_MAX = 16  # requests that are looked ahead at a time
    AHEAD_TOKENS_MAX = 4  # of each

cdef struct Ahead:
    Py_ssize_t at, end, count  # of the request, as in `PlainRequests`
    Token tokens[AHEAD_TOKENS_MAX]
    int place


cdef class HotPath:
    cdef object _timer_ns
    cdef object _state
    cdef object _log
    cdef object _conv
    cdef object _work
    cdef object _epis
    cdef object _sem
    cdef Session _session
    cdef list _databases
    cdef dict _watched
    cdef list _ahead_names
    cdef Ahead _ahead[AHEAD_MAX]
    cdef int _ahead_at
    cdef int _ahead_count
    cdef ReplyBuffer _frames
    cdef int _frame_count
    cdef int _last
    cdef object _memory
    cdef Ledger _ledger
    cdef long long _data_bytes_max     # beyond it, writes are the reference's, which refuses them
    cdef long long _memory_offset      # where the log is when the memory is to be looked at again
    cdef bint _fresh
    cdef bint _readable
    cdef bint _gates_reads
    cdef bint resp3
    cdef int db
    cdef long long now_ms
    cdef readonly long long offset  # where the log is, with what gathers here
    cdef long long _room
    cdef long long _slow_from_ns
    cdef long long _began_ns
    cdef long long *_calls     # by place in the tables
    cdef long long *_spent_ns

    cdef int begin(self, Session session, long long now_ms, long long now_ns) except -1
    cdef int next(self, PlainRequests requests) except -3
    cdef bytes name(self, const Token *token)
    cdef int find(self, PlainRequests requests) noexcept
    cdef bint waits(self, int place) noexcept
    cdef int serve(self, int place, PlainRequests requests, ReplyBuffer out) except -1
    cdef int ran(self, int place, PlainRequests requests, long long now_ns) except -1
    cdef int commit(self) except -1
    cdef void leave(self) noexcept
    cdef void stale(self) noexcept
    cdef int _look_at_log(self) except -1
    cdef int _has_room(self, PlainRequests requests) except -1
    cdef char *frame(self, int fields, Py_ssize_t count_bytes) except NULL
    cdef void framed(self, char *end) noexcept
