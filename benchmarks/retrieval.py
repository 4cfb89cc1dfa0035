"""How often the first few of what is found hold the answer: by words, by vectors, and by both.

`python -m benchmarks.retrieval --data FILE`. FILE is a list of conversations, each `{"conversation": name, "turns":
[{"id", "session", "speaker", "text"}], "qa": [{"question", "evidence": [ids]}]}`, as LoCoMo has them; beside it lie
the vectors of turns and questions as `name/turns` and `name/questions` in a `.npz`. Neither is part of this project.

A turn is a fact, and a question is found if a turn of its evidence is among the first 5 or 10. In the rows with context
a turn has the one before it in its session with it: the words of both, and the mean of their vectors. Questions
without evidence are left out. The range over leaving out one conversation tells how much depends on which.

`--worse` does the same with one leg made worse or better, as neither may pull the other down: questions without the
rarest third of their words or with a single common one, vectors with noise or nearer to the answer, and similarities
squeezed into the narrow range that some embedders have.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from amemdb.index.text import fuse
from amemdb.index.text.analyse import Analyser
from amemdb.index.text.bm25 import TextFound, TextSearch
from amemdb.index.text.phrases import Phrases
from amemdb.index.text.postings import TextIndex

DEPTHS = (5, 10)
CONTEXT = " with context"
Floats = NDArray[np.float64]
Spoil = Callable[["Conversation", int, dict[bytes, float], Floats], tuple[dict[bytes, float], Floats]]


class Conversation:
    """One conversation, indexed."""

    def __init__(self, source: dict[str, Any], vectors: Any, with_context: bool) -> None:
        name = source["conversation"]
        self.name: str = name
        turns = source["turns"]
        said = [f"{turn['speaker']}: {turn['text']}".encode() for turn in turns]
        rows = _units(vectors[f"{name}/turns"])
        self.texts, mixed = list(said), rows.copy()
        for at in range(1, len(turns) if with_context else 0):
            if turns[at - 1]["session"] == turns[at]["session"]:
                self.texts[at] = said[at - 1] + b"\n" + said[at]
                mixed[at] += rows[at - 1]
        self.vectors = _units(mixed)
        self.index = TextIndex(Analyser())
        for number, text in enumerate(self.texts):
            self.index.put(number, text)
        place = {turn["id"]: at for at, turn in enumerate(turns)}
        asked = _units(vectors[f"{name}/questions"])
        self.questions = [
            (question["question"].encode(), asked[at], evidence)
            for at, question in enumerate(source["qa"])
            if (evidence := {place[turn] for turn in question["evidence"] if turn in place})
        ]

    def answers(self, spoil: Spoil | None) -> Iterator[dict[str, list[bool]]]:
        """For each question, by way of searching, whether it is found at each depth."""
        k = max(DEPTHS)
        for number, (question, vector, evidence) in enumerate(self.questions):
            weights = self.index.analyser.query(question)
            similarities = self.vectors @ vector
            if spoil is not None:
                weights, similarities = spoil(self, number, weights, vector)
            found = TextSearch(self.index, weights).work()
            lexical = self._lexical(found, question, fuse.pool_size(k))
            ways = {
                "words": np.lexsort((-np.arange(len(lexical)), -lexical))[:k].tolist(),
                "vectors": np.argsort(-similarities, kind="stable")[:k].tolist(),
                "hybrid": self._hybrid(lexical, found.full, similarities, k),
            }
            yield {
                way: [bool(evidence.intersection(places[:depth])) for depth in DEPTHS] for way, places in ways.items()
            }

    def _lexical(self, found: TextFound, question: bytes, count: int) -> Floats:
        """The scores of all turns by words, those of the best `count` with what phrases add."""
        scores = found.scores_of(np.arange(len(self.texts)))
        phrases = Phrases(self.index.analyser, self.index.analyser.words(question), found.values)
        steps = found.best_with_phrases(count, phrases, self.texts.__getitem__)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                for score, turn in end.value:
                    scores[turn] = score
                return scores

    def _hybrid(self, lexical: Floats, full: float, similarities: Floats, k: int) -> list[int]:
        size = fuse.pool_size(k)
        pool = np.union1d(np.argsort(-lexical, kind="stable")[:size], np.argsort(-similarities, kind="stable")[:size])
        legs = [lexical[pool], similarities[pool]]
        joint = fuse.fused(legs[0], full, legs[1])
        return [int(pool[place]) for place in fuse.order(joint, legs, pool, k)]


def _units(rows: Any) -> Floats:
    wide = np.asarray(rows, np.float64)
    units: Floats = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    return units


# -- one leg made worse ------------------------------------------------------------------------------


def _few_words(
    talk: Conversation, number: int, weights: dict[bytes, float], vector: Floats
) -> tuple[dict[bytes, float], Floats]:
    rare = sorted(weights, key=lambda term: (len(talk.index.postings(term)), term))
    lost = set(rare[: max(1, len(rare) // 3)])
    return {b"\x00" * (term in lost) + term: weight for term, weight in weights.items()}, talk.vectors @ vector


def _no_words(
    talk: Conversation, number: int, weights: dict[bytes, float], vector: Floats
) -> tuple[dict[bytes, float], Floats]:
    chance = (b"like", b"good", b"time", b"day")[number % 4]
    return {chance: 1.0, **{b"\x00" + term: weight for term, weight in weights.items()}}, talk.vectors @ vector


def _noisy_vectors(
    talk: Conversation, number: int, weights: dict[bytes, float], vector: Floats
) -> tuple[dict[bytes, float], Floats]:
    noise = np.random.default_rng(number).normal(size=len(vector))
    return weights, talk.vectors @ _units([vector + 1.5 * noise / np.linalg.norm(noise)])[0]


def _good_vectors(
    talk: Conversation, number: int, weights: dict[bytes, float], vector: Floats
) -> tuple[dict[bytes, float], Floats]:
    answer = _units([talk.vectors[sorted(talk.questions[number][2])].mean(axis=0)])[0]
    return weights, talk.vectors @ _units([vector + 0.3 * answer])[0]


def _narrow_similarities(
    talk: Conversation, number: int, weights: dict[bytes, float], vector: Floats
) -> tuple[dict[bytes, float], Floats]:
    return weights, 0.7 + 0.3 * (talk.vectors @ vector)


WORSE: dict[str, Spoil] = {
    "few words": _few_words,
    "one common word": _no_words,
    "noisy vectors": _noisy_vectors,
    "good vectors": _good_vectors,
    "narrow similarities": _narrow_similarities,
}


# -- the table ---------------------------------------------------------------------------------------


def measure(
    sources: list[dict[str, Any]], vectors: Any, spoil: Spoil | None = None
) -> dict[str, dict[str, NDArray[np.bool_]]]:
    """By way of searching, then by conversation: for each question whether it was found at each depth."""
    results: dict[str, dict[str, NDArray[np.bool_]]] = {}
    for with_context in (False, True):
        for source in sources:
            talk = Conversation(source, vectors, with_context)
            answers = list(talk.answers(spoil))
            for way in answers[0]:
                label = way + CONTEXT * with_context
                results.setdefault(label, {})[talk.name] = np.array([answer[way] for answer in answers])
    return results


def mean_and_error(found: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """At each depth the share that was found and its standard error."""
    shares = found.mean(axis=0).tolist()
    return [(share, math.sqrt(share * (1.0 - share) / len(found))) for share in shares]


def table(results: dict[str, dict[str, NDArray[np.bool_]]]) -> str:
    """All conversations together, and the range over leaving out one."""
    lines = [f"{'':24}" + "".join(f"  @{depth:<14}" for depth in DEPTHS) + "  leaving one out"]
    for way, by_name in results.items():
        every = np.concatenate(list(by_name.values()))
        shown = "".join(f"  {share:.3f} ± {error:.3f}  " for share, error in mean_and_error(every))
        others = [
            np.concatenate([found for name, found in by_name.items() if name != left_out]).mean(axis=0)
            for left_out in by_name
            if len(by_name) > 1
        ]
        ranges = [f"{min(part):.3f} to {max(part):.3f}" for part in zip(*others, strict=True)]
        lines.append(f"{way:24}{shown}  {', '.join(ranges)}")
    return "\n".join(lines)


@click.command()
@click.option("--data", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--vectors", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Else the one beside it.")
@click.option("--worse", is_flag=True, help="Also with one leg made worse.")
def main(data: Path, vectors: Path | None, worse: bool) -> None:
    """Measure retrieval on conversations with questions."""
    sources = json.loads(data.read_text(encoding="utf-8"))
    beside = sorted(data.parent.glob(f"{data.stem}*.npz"))
    if vectors is None and len(beside) != 1:
        raise click.UsageError(f"{len(beside)} files of vectors lie beside {data.name}; name one with --vectors")
    loaded = np.load(vectors or beside[0])
    click.echo(f"{sum(len(source['qa']) for source in sources)} questions in {len(sources)} conversations\n")
    click.echo(table(measure(sources, loaded)))
    for name, spoil in WORSE.items() if worse else ():
        click.echo(f"\n{name}\n{table(measure(sources, loaded, spoil))}")


if __name__ == "__main__":
    main()
