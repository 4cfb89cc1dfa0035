"""`python -m demo`: plays the conversation; exit code 0 if it went as written."""

from __future__ import annotations

import signal
import sys

from demo.play import play
from demo.server import ServerFailed
from demo.stage import Stage


def main() -> int:
    """Play it. Whatever happens, the server and its folder are gone at the end."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        play(Stage())
    except ServerFailed as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
