"""The twin of `amemdb.commands.session`, where the fields are explained: the same, reached without a look-up."""


cdef class Session:
    """One connection."""

    def __init__(
        self,
        id,
        address="",
        local_address="",
        created_at_ns=0,
        *,
        last_active_ns=0,
    ):
        self.id = id
        self.address = address
        self.local_address = local_address
        self.created_at_ns = created_at_ns
        self.last_active_ns = last_active_ns
        self.authenticated = True
        self.user = b"default"
        self.name = self.library_name = self.library_version = b""
        self.watched = {}
        self.reply_mode = "on"
        self.last_command = ""

    @property
    def plain(self):
        """Whether a request is simply executed and answered: logged in, no transaction, replies wanted."""
        return self.is_plain()

    def leave_transaction(self):
        """Forget queued commands; watches are given back by `commands.transactions`."""
        self.queue = None
        self.queue_broken = False
        self.queue_bytes = 0

    cdef bint is_plain(self) noexcept:
        return self.authenticated and self.queue is None and self.reply_mode == "on"
