"""amemdb: an in-memory database for the memory of AI agents, speaking the Redis protocol.

Only the version lives here; the server starts in `amemdb.__main__`.
"""

__version__ = "0.1.0"
