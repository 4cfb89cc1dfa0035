"""The serving side on asyncio: the only package that knows sockets, threads, signals and the process.

`connection` is one client, `listener` all of them, `turn` what happens once per turn of the event loop, `ticks` what
happens by the clock. `node` binds these to an engine and a log, `run` makes a process of it, `crash` ends that process
when it can no longer be trusted.
"""
