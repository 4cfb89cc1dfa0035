"""The append-only log: what makes a change survive the process, and how it is read back.

`codec` is the file format and its rules (start there), `manifest` the list of files that count, `disk` the only
door to the operating system. `log` decides what is to be written and when, as a state machine without any I/O;
`writer` does what it asks for, one step at a time; `steps` is the vocabulary between the two. `recovery` reads a
log without changing it (`scan` looks behind damage), `opening` makes what was read ready for the next write.

`compaction` makes of a log a `base`, which stands for its beginning, by `parts` of the name space; `compactor` is the
process that does so beside the server.

No threads, no clock and no event loop in here: `amemdb.server.log_service` adds them, a simulator leaves them out. Only
the process of its own looks at a clock, for how often it tells how far it is.
"""
