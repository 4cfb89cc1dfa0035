"""Requests: bytes in, lists of tokens out. The wire grammar and its limits live here and nowhere else.

Not here: what the tokens mean, sockets, replies. Whoever reads a connection calls `feed` with what arrived and
`next` until it returns None. The same bytes give the same requests, and the same error behind them, however they
were cut into chunks.

Grammar
-------
::

    request  = array | inline
    array    = "*" count CRLF bulk{count}          count <= 0: an empty request, skipped
    bulk     = "$" length CRLF byte{length} CRLF   the length delimits, not a line end inside
    count    = length = [ "-" ] digit+             strict: no "+", no blanks, within 64 bits
    inline   = any line that does not begin with "*", ended by LF or CRLF

An array header where a bulk is due is an error, so nothing nests and nothing recurses.

An inline request is what a person types. One CR before the LF belongs to the line end; the rest is cut into tokens by
the quoting rules of `amemdb.protocol.inline`. A line of blanks alone is skipped.

Limits
------
A line (inline request, or header of an array or bulk) has at most 64 KiB before its LF, an array at most 1,048,576
bulks, a bulk at most 512 MiB; before login 10 bulks of 16 KiB. The whole request, headers included, stays within
`query_bytes_max`, which is checked against announced lengths, before the bytes come. Nothing is ever allocated by an
announced length: memory follows what was received.

States
------
==========  =========================================  ======================================================
state       what is awaited                            next
==========  =========================================  ======================================================
START       the first byte of a request                COUNT after "*", else INLINE
INLINE      the rest of a line                         START, with a request unless the line was blank
COUNT       the rest of a "*" line                     LENGTH, or START after a count <= 0
LENGTH      a "$" line                                 BODY
BODY        the missing bytes of a bulk                BODY_CR
BODY_CR     the CR behind a bulk                       BODY_LF
BODY_LF     the LF behind a bulk                       LENGTH, or START with a request after the last bulk
==========  =========================================  ======================================================

Every state takes all it can out of the buffer, into the line or the bulk it collects, so no byte is looked at twice
however small the chunks are, and the buffer is empty whenever `next` returns None. After an error the parser says
only that error: where a request begins can no longer be known.

The short way
-------------
Most traffic is many small whole commands in one chunk. At START, after login, a window of the buffer is split at
every CRLF; a command without CR LF inside its values is then `*n` followed by n pairs of header and value, checked
by two tables and by comparing lengths. Whatever is not of that plain shape is left to the states, which are the
truth: the short way never decides that something is wrong. A window that was used by less than half is followed by
one half as wide, so that splitting costs no more than what it gave.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import NoReturn

from amemdb.errors import ProtocolError, printable
from amemdb.limits import (
    ARGS_MAX,
    ARGS_MAX_UNAUTHENTICATED,
    BULK_BYTES_MAX,
    BULK_BYTES_MAX_UNAUTHENTICATED,
    INLINE_BYTES_MAX,
)
from amemdb.protocol.inline import split_inline
from amemdb.protocol.numbers import parse_integer

_START, _INLINE, _COUNT, _LENGTH, _BODY, _BODY_CR, _BODY_LF = range(7)
_CR, _LF, _STAR, _DOLLAR = b"\r\n*$"

_WINDOW_BYTES_MAX = 64 * 1024
_WINDOW_BYTES_MIN = 512
_PLAIN_MAX = 2048
_COUNT_OF = {b"*%d" % count: count for count in range(1, _PLAIN_MAX + 1)}
_LENGTH_OF = {b"$%d" % length: length for length in range(_PLAIN_MAX + 1)}
_HEADER_BYTES_MAX = len(b"$%d\r\n" % _PLAIN_MAX)

_BLANK_LINES = re.compile(rb"(?:\r?\n){1,512}")  # bounded, as each repetition of a group is remembered


class RequestParser:
    """The state of one connection's incoming bytes.

    `authenticated` chooses the limits and may be set at any time; it counts for headers not yet looked at, so a
    login takes effect for the request behind it in the same chunk.
    """

    def __init__(self, authenticated: bool = True, query_bytes_max: int = 1 << 30) -> None:
        self.authenticated = authenticated
        self._query_bytes_max = query_bytes_max
        self._line_bytes_max = min(INLINE_BYTES_MAX, query_bytes_max)
        self._window_bytes_max = min(_WINDOW_BYTES_MAX, query_bytes_max)
        self._window_bytes = self._window_bytes_max
        self._failure: str | None = None
        self._clear()

    def _clear(self) -> None:
        """Hold no bytes and await a request."""
        self._buffer = b""
        self._position = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._state = _START
        self._size = 0  # bytes of the request in progress that have left the buffer
        self._line = bytearray()
        self._tokens: list[bytes] = []
        self._count = 0
        self._body: BytesIO | None = None
        self._body_missing = 0
        self._pieces: list[bytes] = []
        self._piece = 0  # the next piece to use
        self._piece_end = 0  # the piece that no CRLF ends
        self._piece_counted = 0  # pieces before this one are in `_position`

    @property
    def buffered_bytes(self) -> int:
        """Bytes received that belong to no request returned so far."""
        self._count_pieces()
        return self._size + len(self._buffer) - self._position + self._waiting_bytes

    def feed(self, data: bytes) -> None:
        """Take what was received. Costs nothing here; `next` does the work."""
        if self._failure is not None:
            return
        if self._buffer:
            self._waiting.append(data)
            self._waiting_bytes += len(data)
        else:
            self._buffer = data

    def next(self) -> list[bytes] | None:
        """The next request, with at least one token, or None when more bytes are needed.

        Raises `ProtocolError`, and the same again at every later call.
        """
        while True:
            index = self._piece
            if index < self._piece_end and self.authenticated:
                pieces = self._pieces
                count = _COUNT_OF.get(pieces[index])
                if count is not None:
                    end = index + 1 + 2 * count
                    if end <= self._piece_end:
                        tokens = pieces[index + 2 : end : 2]
                        if [*map(len, tokens)] == [*map(_LENGTH_OF.get, pieces[index + 1 : end : 2])]:
                            self._piece = end
                            return tokens
            if not self._next_window():
                return self._run()

    def release(self) -> bytes:
        """Give back what was fed and lies behind the request that `next` has just returned."""
        self._count_pieces()
        rest = self._buffer[self._position :] + b"".join(self._waiting)
        self._clear()
        return rest

    # -- the short way ---------------------------------------------------------------------------

    def _next_window(self) -> bool:
        """Leave the window and open the next; False when what follows is for the states."""
        self._count_pieces()
        used, end = self._piece, self._piece_end
        if end:
            self._pieces = []
            self._piece = self._piece_end = self._piece_counted = 0
            wider = self._window_bytes * 2 if used * 2 >= end else self._window_bytes // 2
            self._window_bytes = min(max(wider, _WINDOW_BYTES_MIN), self._window_bytes_max)
        if used < end or self._state != _START or not self.authenticated:
            return False
        position, buffer = self._position, self._buffer
        if position == len(buffer) or buffer[position] != _STAR:
            return False
        if position or len(buffer) > self._window_bytes:
            buffer = buffer[position : position + self._window_bytes]
        self._pieces = buffer.split(b"\r\n")
        self._piece_end = len(self._pieces) - 1
        return self._piece_end > 0

    def _count_pieces(self) -> None:
        """Move `_position` behind the pieces that were used."""
        first, last = self._piece_counted, self._piece
        if first < last:
            self._position += sum(map(len, self._pieces[first:last])) + 2 * (last - first)
            self._piece_counted = last

    # -- the states ------------------------------------------------------------------------------

    def _run(self) -> list[bytes] | None:
        if self._failure is not None:
            raise ProtocolError(self._failure)
        while self._position < len(self._buffer) or self._refill():
            state = self._state
            if state == _LENGTH:
                self._take_plain_bulks()
                if len(self._tokens) == self._count:
                    return self._finish(self._tokens)
                if self._position < len(self._buffer):
                    self._take_length()
            elif state == _BODY:
                self._take_body()
            elif state in (_BODY_CR, _BODY_LF):
                if self._take_body_end() and len(self._tokens) == self._count:
                    return self._finish(self._tokens)
            elif state == _START:
                self._begin()
            elif state == _COUNT:
                self._take_count()
            else:
                tokens = self._take_inline()
                if tokens:
                    return self._finish(tokens)
        return None

    def _refill(self) -> bool:
        """Put what was fed since into the empty buffer; False when there is nothing."""
        self._buffer = b"".join(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        self._position = 0
        return bool(self._buffer)

    def _begin(self) -> None:
        blank = _BLANK_LINES.match(self._buffer, self._position)
        if blank is not None:
            self._position = blank.end()
        else:
            self._state = _COUNT if self._buffer[self._position] == _STAR else _INLINE

    def _finish(self, tokens: list[bytes]) -> list[bytes]:
        """Back to the start; `tokens` go to the caller and are no longer ours."""
        self._state = _START
        self._size = 0
        self._tokens = []
        return tokens

    def _take_inline(self) -> list[bytes]:
        line = self._take_line("too big inline request")
        if line is None:
            return []
        tokens = split_inline(line[:-1] if line.endswith(b"\r") else line)
        if tokens is None:
            self._fail("unbalanced quotes in request")
        if not tokens:
            self._finish(tokens)
        return tokens

    def _take_count(self) -> None:
        line = self._take_line("too big mbulk count string")
        if line is None:
            return
        count = _header_number(line)
        if count is None or count > ARGS_MAX:
            self._fail("invalid multibulk length")
        if count > ARGS_MAX_UNAUTHENTICATED and not self.authenticated:
            self._fail("unauthenticated multibulk length")
        if count <= 0:
            self._finish([])
            return
        self._check_size(0)
        self._count = count
        self._state = _LENGTH

    def _take_length(self) -> None:
        if not self._line and self._buffer[self._position] != _DOLLAR:
            got = printable(self._buffer[self._position : self._position + 1])
            self._fail(f"expected '$', got '{got}'")
        line = self._take_line("too big bulk count string")
        if line is None:
            return
        length = _header_number(line)
        if length is None or not 0 <= length <= BULK_BYTES_MAX:
            self._fail("invalid bulk length")
        if length > BULK_BYTES_MAX_UNAUTHENTICATED and not self.authenticated:
            self._fail("unauthenticated bulk length")
        self._check_size(length + 2)
        self._body_missing = length
        self._state = _BODY

    def _take_body(self) -> None:
        """Take what there is of a bulk. A bulk in pieces is collected in a BytesIO, which gives it away uncopied."""
        start, missing = self._position, self._body_missing
        stop = min(start + missing, len(self._buffer))
        self._position = stop
        self._size += stop - start
        self._body_missing = missing - (stop - start)
        if self._body is None:
            if not self._body_missing:
                self._tokens.append(self._buffer[start:stop])
                self._state = _BODY_CR
                return
            self._body = BytesIO()
        self._body.write(memoryview(self._buffer)[start:stop])
        if not self._body_missing:
            self._tokens.append(self._body.getvalue())
            self._body = None
            self._state = _BODY_CR

    def _take_body_end(self) -> bool:
        """Take the CR or the LF behind a bulk; True when that was the LF."""
        byte = self._buffer[self._position]
        if byte != (_CR if self._state == _BODY_CR else _LF):
            self._fail("expected CRLF after a bulk")
        self._position += 1
        self._size += 1
        self._state = _BODY_LF if byte == _CR else _LENGTH
        return byte == _LF

    def _take_plain_bulks(self) -> None:
        """Take the bulks that lie whole in the buffer and are short: what the states do one by one, in one loop."""
        if self._line:
            return
        buffer, start = self._buffer, self._position
        position, last = start, start + self._query_bytes_max - self._size
        tokens = self._tokens
        for _ in range(self._count - len(tokens)):
            header_end = buffer.find(b"\r\n", position, position + _HEADER_BYTES_MAX)
            length = _LENGTH_OF.get(buffer[position:header_end]) if header_end >= 0 else None
            if length is None:
                break
            body_end = header_end + 2 + length
            if buffer[body_end : body_end + 2] != b"\r\n" or body_end + 2 > last:
                break
            tokens.append(buffer[header_end + 2 : body_end])
            position = body_end + 2
        self._position = position
        self._size += position - start

    def _take_line(self, too_big: str) -> bytes | None:
        """A line up to its LF, taken away with it, or None while that has not come."""
        start, line = self._position, self._line
        room = self._line_bytes_max - len(line)
        line_feed = self._buffer.find(b"\n", start, start + room + 1)
        if line_feed >= 0:
            self._position = line_feed + 1
            self._size += line_feed + 1 - start
            if not line:
                return self._buffer[start:line_feed]
            whole = bytes(line) + self._buffer[start:line_feed]
            line.clear()
            return whole
        rest = self._buffer[start : start + room + 1]
        if len(rest) > room:
            self._fail(too_big)
        line += rest
        self._position += len(rest)
        self._size += len(rest)
        return None

    def _check_size(self, more_bytes: int) -> None:
        if self._size + more_bytes > self._query_bytes_max:
            self._fail(f"too big request, more than {self._query_bytes_max} bytes")

    def _fail(self, text: str) -> NoReturn:
        """Say `text` from now on, and keep nothing of what was sent."""
        self._clear()
        self._failure = text
        raise ProtocolError(text)


def _header_number(line: bytes) -> int | None:
    """The number of a header line `*…CR` or `$…CR` (its LF is gone), or None."""
    return parse_integer(line[1:-1]) if line.endswith(b"\r") else None
