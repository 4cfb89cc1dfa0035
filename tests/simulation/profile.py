"""What kind of world a seed makes: most have only some of the troubles, so that each is met without the others, too."""

from __future__ import annotations

from random import Random


class Profile:
    """How often what happens in a world, and how large things are."""

    def __init__(self, random: Random) -> None:
        self.policies: tuple[str, ...] = random.choice(
            (("always",), ("always",), ("everysec",), ("everysec",), ("always", "everysec"), ("no",))
        )
        """Each life has one of them."""
        self.lives = random.choice((1, 2, 2, 3))
        self.life_s = random.choice((0.3, 1.0, 3.0))
        """The longest life."""
        self.stop_chance = random.choice((0.3, 0.9))
        """How often a life is to end in the middle of an operation of the disk."""
        self.segment_bytes_max = random.choice((500, 2000, 10_000, 1 << 20))
        self.reserve_bytes = random.choice((300, 4000, 65_536))
        self.slow_chance = random.choice((0.0, 0.0, 0.02, 0.2))
        """How often a step of the disk is slow."""
        self.network_ms = random.choice((0.2, 2.0, 20.0))
        self.pieces = random.choice((0.0, 0.3))
        """How often only a part of what is under way arrives."""
        self.clients = random.choice((1, 2, 3))
        self.think_ms = random.choice((60, 180))
        self.pipeline = random.choice((1, 2, 5))
        """Requests that a client sends at once, at most."""
        self.faults = random.choice((0.0, 0.0, 0.0, 2.0, 5.0))
        """How many faults the disk has a second."""
        self.cuts = random.choice((0.0, 0.0, 0.5))
        self.jumps = random.choice((0.0, 0.0, 0.5))
        self.changes = random.choice((0.0, 0.0, 0.5)) if "no" not in self.policies else 0.0
        """How often a second the policy is changed between `always` and `everysec`."""
        self.compactions = random.choice((0.0, 0.0, 0.7, 1.5))
        """How often a second somebody asks for a compaction."""
        self.compaction_percentage = random.choice((0, 0, 0, 100))
        """When one begins by itself; 0 for never."""
        self.compaction_memory = random.choice((3000, 20_000, 1 << 30, 1 << 30))
        """What a part of it may take."""
        self.stop_steps = ["Append", "Sync", "Sync", "TurnOver", "TurnOver", "Prepare"]
        """In which steps of the disk a life may be made to end."""
        if self.compactions:
            self.stop_steps += ["Rebase"] * 4
        if self.faults:
            self.stop_steps += ["Switch"] * 4
