"""Vector search behind one interface: the exact index now, the only one that may call itself right.

An index holds vectors by fact id and knows no agent, key or content. It imports nothing of the stores.
"""
