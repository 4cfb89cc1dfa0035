"""The twin of `amemdb.engine.traffic`: two numbers in C."""


cdef class Traffic:
    """Bytes received from and sent to all connections."""
