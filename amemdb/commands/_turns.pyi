from collections.abc import Iterator, Sequence

from amemdb.stores.conversation import Turn

def pieces_of(
    turns: Sequence[Turn], begin: int, first_seq: int, heads: list[bytes], labels: list[bytes], null: bytes
) -> Iterator[bytes]: ...
