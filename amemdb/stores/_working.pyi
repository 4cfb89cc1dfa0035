from amemdb.stores.working import PlainNotes

class Notes(PlainNotes):
    @property
    def expiring(self) -> int: ...
