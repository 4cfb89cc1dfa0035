"""The twin of `amemdb.stores.memory.PlainLedger`: numbers that native handlers reach at once."""


cdef class Ledger:
    """Bytes held by each family, without its tables."""

    @property
    def held(self):
        """All of it."""
        return self.held_bytes()

    cdef long long held_bytes(self) noexcept:
        return (
            self.conversation + self.working + self.semantic + self.episodic + self.summary + self.keyspace
            + self.graveyard
        )
