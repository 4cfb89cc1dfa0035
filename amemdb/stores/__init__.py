"""State. Each store is plain Python, changes only through its `apply_…` methods, and reads no clock.

`records` names every change there is; `stores` binds the families together and routes a record to its store.
Commands read the stores directly and change them by emitting records, never otherwise.
"""
