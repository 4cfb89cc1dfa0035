"""The estimate of tokens: what a model will count for a text, told without asking its tokenizer.

A token for every four bytes, rounded up, and four tokens more for a turn, which stand for its role and for what a chat
format puts around it. Four bytes a token is the common rule of thumb for English; other scripts can cost more, so a
budget that must hold exactly is to be cut again by who knows the model. Only lengths count: the same state gives the
same answer on every node.
"""

from __future__ import annotations

from collections.abc import Sequence

from amemdb.stores.conversation import Turn

BYTES_PER_TOKEN = 4
TOKENS_PER_TURN = 4


def turn_tokens(turn: Turn) -> int:
    """What one turn costs."""
    return TOKENS_PER_TURN - (-len(turn[1]) // BYTES_PER_TOKEN)


def newest_within(turns: Sequence[Turn], budget_tokens: int) -> int:
    """How many of the newest `turns` cost at most `budget_tokens` together, without a gap."""
    count = 0
    for turn in reversed(turns):
        budget_tokens -= turn_tokens(turn)
        if budget_tokens < 0:
            break
        count += 1
    return count
