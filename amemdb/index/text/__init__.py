"""Search by words: how a text becomes terms, the index of who holds which, and how its scores join others.

An index holds documents by number and knows no agent, key or session. It is a cache of a store: whoever owns the
documents feeds them to it when somebody asks, so a write costs nothing here.
"""
