"""How a command runs: find it, pass the gates, parse and run it, commit what it emitted as one frame."""
