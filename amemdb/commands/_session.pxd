"""The compiled twin of `session`. See `_session.pyx`."""


cdef class Session:
    cdef public object id, address, local_address, user, name, library_name, library_version
    cdef public object queue, watched, reply_mode, last_command
    cdef public long long created_at_ns, reply_offset, last_active_ns
    cdef public Py_ssize_t queue_bytes, query_bytes, output_bytes
    cdef public int db
    cdef public bint authenticated, resp3, queue_broken, no_evict, no_touch, close_after_reply, kill

    cdef bint is_plain(self) noexcept
