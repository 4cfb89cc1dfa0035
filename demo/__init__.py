"""A support conversation played against a real server, to be read in a terminal: `make demo`, or `python -m demo`.

`play` is the conversation, `stage` shows what is asked and what comes back, `server` runs and kills the server,
`words` makes vectors out of words so that no model is needed. Only the public client is used.
"""
