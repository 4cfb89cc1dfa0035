"""The text indexes of all objects, each made when its object is first searched by words, and gone with it.

They are caches of the stores: no record concerns them, no dump holds them, and a copy makes its own. What they take in
memory is counted here, as a table of the stores.
"""

from __future__ import annotations

from amemdb.index.text.analyse import Analyser
from amemdb.index.text.languages import DEFAULT
from amemdb.stores.conversation import Conversation
from amemdb.stores.episodic import EventLog
from amemdb.stores.feeds import EventFeed, FactFeed, Feed, NoteFeed, TurnFeed
from amemdb.stores.graveyard import Graveyard
from amemdb.stores.semantic import Namespace
from amemdb.stores.working import WorkingStore


class Texts:
    """Feeds by agent or session. Empty, and of no cost, until somebody searches by words."""

    __slots__ = ("_analysers", "_graveyard", "events", "facts", "held_bytes", "language", "notes", "turns")

    def __init__(self, graveyard: Graveyard) -> None:
        self.facts: dict[bytes, FactFeed] = {}
        self.events: dict[bytes, EventFeed] = {}
        self.turns: dict[bytes, TurnFeed] = {}
        self.notes: dict[bytes, NoteFeed] = {}
        self.held_bytes = 0
        self.language = DEFAULT
        """Of texts that do not say theirs. To be set before the first search."""
        self._graveyard = graveyard
        self._analysers: dict[bytes, Analyser] = {}

    def memory_bytes(self) -> int:
        """Bytes of memory that all of them take."""
        return self.held_bytes + sum([analyser.memory_bytes() for analyser in self._analysers.values()])

    def namespace_bytes(self, agent: bytes) -> int:
        """Bytes that the index of an agent's facts takes, 0 without."""
        return _bytes_of(self.facts.get(agent))

    def log_bytes(self, agent: bytes) -> int:
        """The same of its events."""
        return _bytes_of(self.events.get(agent))

    def session_bytes(self, session: bytes) -> int:
        """The same of a session's turns and notes."""
        return _bytes_of(self.turns.get(session)) + _bytes_of(self.notes.get(session))

    # -- for a search ------------------------------------------------------------------------------

    def of_namespace(self, namespace: Namespace) -> FactFeed:
        """The texts of an agent's facts."""
        feed = self.facts.get(namespace.agent)
        if feed is None:
            analyser = self._analyser(namespace.settings.lang or self.language)
            feed = self.facts[namespace.agent] = FactFeed(namespace, analyser, self._changed)
            self.held_bytes += feed.counted_bytes
            namespace.text = feed.index
        return feed

    def of_log(self, agent: bytes, log: EventLog) -> EventFeed:
        """The texts of an agent's events."""
        feed = self.events.get(agent)
        if feed is None:
            feed = self.events[agent] = EventFeed(log, self._analyser(self.language), self._changed)
            self.held_bytes += feed.counted_bytes
        return feed

    def of_conversation(self, conversation: Conversation) -> TurnFeed:
        """The texts of a session's turns."""
        feed = self.turns.get(conversation.name)
        if feed is None:
            feed = TurnFeed(conversation, self._analyser(self.language), self._changed)
            self.turns[conversation.name] = feed
            self.held_bytes += feed.counted_bytes
        return feed

    def of_notes(self, session: bytes, store: WorkingStore) -> NoteFeed:
        """The texts of a session's notes."""
        feed = self.notes.get(session)
        if feed is None:
            feed = self.notes[session] = NoteFeed(session, store, self._analyser(self.language), self._changed)
            self.held_bytes += feed.counted_bytes
        return feed

    def _analyser(self, language: bytes) -> Analyser:
        found = self._analysers.get(language)
        if found is None:
            found = self._analysers[language] = Analyser(language)
        return found

    def _changed(self, more_bytes: int) -> None:
        self.held_bytes += more_bytes

    # -- when an object goes -----------------------------------------------------------------------

    def drop_namespace(self, agent: bytes) -> None:
        """An agent's semantic memory is gone."""
        self._drop(self.facts.pop(agent, None))

    def trim_log(self, agent: bytes, log: EventLog | None) -> None:
        """Events of an agent have gone, and with None their log as well."""
        feed = self.events.get(agent)
        if feed is not None and log is None:
            self._drop(self.events.pop(agent))
        elif feed is not None:
            feed.trimmed()

    def drop_session(self, session: bytes) -> None:
        """A session is gone, with its notes."""
        self._drop(self.turns.pop(session, None))
        self._drop(self.notes.pop(session, None))

    def clear(self) -> None:
        """Everything is gone."""
        for feeds in (self.facts, self.events, self.turns, self.notes):
            for feed in list(feeds.values()):
                self._drop(feed)
            feeds.clear()

    def _drop(self, feed: Feed | None) -> None:
        if feed is not None:
            feed.dropped = True
            self.held_bytes -= feed.counted_bytes
            self._graveyard.bury(feed.index, feed.counted_bytes)


def _bytes_of(feed: Feed | None) -> int:
    return 0 if feed is None else feed.counted_bytes
