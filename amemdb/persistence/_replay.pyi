"""What `_replay.pyx` offers to Python; it is described there."""

from amemdb.persistence._writing import Tail
from amemdb.stores.stores import Stores

class Replayer:
    block_count: int
    frame_count: int
    record_count: int
    time_ms: int
    payload_bytes: int
    durable: int
    closed: bool
    begun: int
    def __init__(self, stores: Stores) -> None: ...
    def take_frames(self, payload: bytes | memoryview) -> int: ...
    def take_records(self, payload: bytes | memoryview) -> int: ...
    def take_blocks(self, tail: Tail, blocks: bytes | memoryview, position: int, offset: int, end: int) -> int: ...
