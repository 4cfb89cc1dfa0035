"""What amemdb uses of msgpack, which ships no types of its own. Signatures as in msgpack 1.0 and later."""

from collections.abc import Callable, Iterator
from typing import Any

from msgpack import exceptions as exceptions

class Packer:
    def __init__(
        self,
        *,
        default: Callable[[Any], Any] | None = None,
        use_single_float: bool = False,
        autoreset: bool = True,
        use_bin_type: bool = True,
        strict_types: bool = False,
        datetime: bool = False,
        unicode_errors: str | None = None,
        buf_size: int = ...,
    ) -> None: ...
    def pack(self, obj: Any) -> bytes: ...
    def pack_array_header(self, size: int) -> bytes: ...
    def bytes(self) -> bytes: ...
    def reset(self) -> None: ...

class Unpacker(Iterator[Any]):
    def __init__(
        self,
        file_like: Any = None,
        *,
        read_size: int = 0,
        use_list: bool = True,
        raw: bool = False,
        timestamp: int = 0,
        strict_map_key: bool = True,
        max_buffer_size: int = ...,
        max_str_len: int = -1,
        max_bin_len: int = -1,
        max_array_len: int = -1,
        max_map_len: int = -1,
        max_ext_len: int = -1,
    ) -> None: ...
    def __iter__(self) -> Unpacker: ...
    def __next__(self) -> Any: ...
    def feed(self, next_bytes: bytes | bytearray | memoryview) -> None: ...
    def unpack(self) -> Any: ...
    def skip(self) -> None: ...
    def read_array_header(self) -> int: ...
    def tell(self) -> int: ...

def packb(
    o: Any, *, use_bin_type: bool = True, strict_types: bool = False, use_single_float: bool = False
) -> bytes: ...
def unpackb(
    packed: bytes | bytearray | memoryview,
    *,
    use_list: bool = True,
    raw: bool = False,
    strict_map_key: bool = True,
    max_buffer_size: int = ...,
) -> Any: ...
