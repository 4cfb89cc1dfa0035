"""What talks to a server from outside, over redis-py and the wire like any other client.

Nothing here sees engine, stores or server: only `protocol`, `limits` and `errors` of the rest of the package. The
clients themselves are `amemdb.Client` and `amemdb.asyncio.Client`; errors are in `amemdb.client.errors`, the
dataclasses of `client.typed` in `amemdb.client.results`.
"""
