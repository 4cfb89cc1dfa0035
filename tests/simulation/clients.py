"""What clients ask: random steps of all families, and some that look for one thing each.

That every reply is the model's is looked at elsewhere (`journal`); a client that keeps something in mind besides checks
it after each start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import hiredis

from amemdb.commands.table import find
from tests.simulation.drawing import Lapse, WorldSteps
from tests.simulation.journal import Request, is_refusal
from tests.simulation.network import Link
from tests.simulation.workload import Workload

if TYPE_CHECKING:
    from tests.simulation.world import World

OUTSTANDING_MAX = 40
"""A client that waits for so many replies asks nothing more."""


class Client(Workload):
    """One client: a connection, made again when it is gone, and requests one after the other."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world)
        self._name = name
        self._link: Link | None = None
        self._steps = WorldSteps(world.model, world.random, world.wall_ms)

    def setup(self) -> None:
        self._link = None
        self.step()

    def step(self) -> None:
        link = self._link
        if link is None or not link.is_open:
            link = self._link = Link(self.world, self._name)
            self._steps.db = 0
        if link.outstanding < OUTSTANDING_MAX and not self.world.quiet:
            link.send(self.requests())
        self.again(1000 / self.world.profile.think_ms / (8 if self.world.ending else 1))

    def requests(self) -> list[Request]:
        """What it asks next."""
        count = self.random.randint(1, self.world.profile.pipeline)
        return [request for _ in range(count) for request in self._draw()]

    def _draw(self) -> list[Request]:
        choice = self.random.random()
        if choice < 0.06:
            return transaction(self._steps, [self._steps.draw() for _ in range(self.random.randint(1, 5))])
        if choice < 0.08:
            self._steps.db = self.random.randrange(2)
            return [Request([b"SELECT", b"%d" % self._steps.db], ok, gated=False)]
        argv, check = self._steps.draw()
        return [Request(argv, check, writes=find(argv).write)]


class Transfers(Client):
    """Moves amounts between accounts, in transactions: together they always have nothing."""

    keys = (b"account:1", b"account:2", b"account:3")

    def requests(self) -> list[Request]:
        steps, model = self._steps, self.world.model
        source, target = self.random.sample(self.keys, 2)
        amount = self.random.randint(1, 100)
        moves = []
        for key, by in ((source, -amount), (target, amount)):
            moves.append(([b"INCRBY", key, b"%d" % by], steps.same(lambda key=key, by=by: model.incr(0, key, by))))
        return transaction(steps, moves)

    def check(self) -> None:
        balances = [int(self.world.model.dbs[0].get(key, (b"0", 0))[0]) for key in self.keys]
        assert sum(balances) == 0, f"a transaction came back in part: {balances}"


class Mayflies(Client):
    """Keys that soon end, and what happens to such keys: all around the moment at which they do."""

    keys = (b"fly:1", b"fly:2")

    def requests(self) -> list[Request]:
        return [self._one() for _ in range(self.random.randint(1, 4))]

    def _one(self) -> Request:
        random, same = self.random, self._steps.same
        model: Any = self._steps.model
        key, other = random.sample(self.keys, 2)
        ms = random.choice((1, 20, 100, 400))
        match random.randrange(7):
            case 0 | 1:
                argv = [b"SET", key, b"f" * random.choice((1, 300)), b"PX", b"%d" % ms]
                check = same(lambda: model.set(0, key, argv[2], Lapse(ms), False, "", False))
            case 2:
                argv, check = [b"PEXPIRE", key, b"%d" % ms], same(lambda: model.expire(0, key, Lapse(ms)))
            case 3:
                argv, check = [b"PERSIST", key], same(lambda: model.persist(0, key))
            case 4:
                argv, check = [b"RENAME", key, other], same(lambda: model.rename(0, key, other))
            case 5:
                argv, check = [b"APPEND", key, b"+"], same(lambda: model.append(0, key, b"+"))
            case _:
                argv, check = [b"GET", key], same(lambda: model.get(0, key))
        return Request(argv, check, writes=find(argv).write)


class Remembering(Client):
    """Stores and recalls facts, in few memories, which are soon full."""

    def requests(self) -> list[Request]:
        return [self._one() for _ in range(self.random.randint(1, 5))]

    def _one(self) -> Request:
        steps, random = self._steps, self.random
        makers = (steps.sem_store, steps.sem_store, steps.sem_recall, steps.sem_recall, steps.sem_create)
        rare = (steps.sem_forget, steps.sem_list, steps.sem_drop)
        argv, check = (random.choice(makers) if random.random() < 0.95 else random.choice(rare))()
        return Request(argv, check, writes=find(argv).write)


class Secrets(Client):
    """Writes what nobody else does, and deletes it, has it expire or writes over it."""

    keys = (b"secret:1", b"secret:2")

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._count = 0
        self.gone: list[bytes] = []
        """What was told to be gone."""
        self._held: dict[bytes, list[bytes]] = {key: [] for key in self.keys}

    def setup(self) -> None:
        super().setup()
        for held in self._held.values():
            held.clear()  # what was not answered may be there or not
        self.gone.clear()  # a power cut may have taken back that they are, where that is allowed

    def requests(self) -> list[Request]:
        random, model, same = self.random, self.world.model, self._steps.same
        key = random.choice(self.keys)
        held = self._held[key]
        gone = list(held)
        if random.random() < 0.4:
            argv, expected = [b"DEL", key], lambda: model.delete(0, [key])
        else:
            self._count += 1
            held.append(b"<%s %d>" % (self._name.encode(), self._count))
            argv = [b"SET", key, held[-1]]
            expected = lambda: model.set(0, key, argv[2], None, False, "", False)  # noqa: E731
        check = same(expected)

        def note_gone(reply: Any) -> None:
            check(reply)
            for secret in gone:
                if secret in held:
                    held.remove(secret)
                    self.gone.append(secret)

        return [Request(argv, note_gone, writes=True)]


def transaction(steps: WorldSteps, moves: list[tuple[list[bytes], Callable[[Any], None]]]) -> list[Request]:
    """MULTI, the steps, and EXEC, which takes them all in the model."""

    def queue(reply: Any) -> None:
        assert reply == b"QUEUED", reply

    def run(reply: Any) -> None:
        if isinstance(reply, hiredis.ReplyError):
            assert str(reply).startswith("EXECABORT"), reply
            assert any(is_refusal(request.reply) for request in queued), f"discarded without a reason: {reply}"
            return
        assert len(reply) == len(moves)
        for (_, check), one in zip(moves, reply, strict=True):
            if not is_refusal(one):  # a step that needs more room than was sent, such as RENAME, can be refused alone
                check(one)
            steps.model.purge()

    queued = [Request(argv, queue, gated=False) for argv, _ in moves]
    exec_ = Request([b"EXEC"], run, writes=any(find(argv).write for argv, _ in moves))
    return [Request([b"MULTI"], ok, gated=False), *queued, exec_]


def ok(reply: Any) -> None:
    """The reply of what always goes well."""
    assert reply == b"OK", reply
