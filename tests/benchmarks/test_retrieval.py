"""The measurement of retrieval, on a conversation made up here."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import retrieval

TEXTS = [
    "We went to the harbour on Monday.",
    "The kitten is called Pixel.",
    "My order number is ZX-4711.",
    "I paint landscapes in my spare time.",
    "Yes, and portraits too.",
]
QUESTIONS = [
    ("What is the kitten called?", ["t1"]),
    ("What was ZX-4711?", ["t2"]),
    ("What else than landscapes is painted?", ["t3", "t4"]),
    ("Nobody knows?", []),
]


@pytest.fixture
def source() -> dict:
    turns = [
        {"id": f"t{number}", "session": number // 3, "speaker": "Ann", "text": text}
        for number, text in enumerate(TEXTS)
    ]
    qa = [{"question": question, "evidence": evidence} for question, evidence in QUESTIONS]
    return {"conversation": "made-up", "turns": turns, "qa": qa}


@pytest.fixture
def vectors() -> dict:
    """Each turn points its own way, and each question at the turn that answers it."""
    ways = np.eye(5, 8, dtype=np.float16)
    return {"made-up/turns": ways, "made-up/questions": ways[[1, 2, 4, 0]]}


def test_what_is_found_is_counted(source, vectors):
    results = retrieval.measure([source], vectors)
    assert set(results) == {f"{way}{more}" for way in ("words", "vectors", "hybrid") for more in ("", " with context")}
    for by_name in results.values():
        assert by_name["made-up"].shape == (3, 2), "a question without evidence does not count"
        assert by_name["made-up"].all(), "five turns are the first five"
    shown = retrieval.table(results)
    assert "words" in shown
    assert "1.000 ± 0.000" in shown


def test_context_is_the_turn_before_in_the_same_session(source, vectors):
    talk = retrieval.Conversation(source, vectors, True)
    assert talk.texts[1] == b"Ann: We went to the harbour on Monday.\nAnn: The kitten is called Pixel."
    assert talk.texts[3] == b"Ann: I paint landscapes in my spare time."
    assert talk.vectors[1][:2] == pytest.approx([0.5**0.5] * 2)


@pytest.mark.parametrize("name", retrieval.WORSE)
def test_one_leg_can_be_made_worse(source, vectors, name):
    results = retrieval.measure([source], vectors, retrieval.WORSE[name])
    assert results["hybrid"]["made-up"].shape == (3, 2)


def test_the_error_is_that_of_a_share():
    ((share, error),) = retrieval.mean_and_error(np.array([[True]] * 50 + [[False]] * 50))
    assert (share, error) == pytest.approx((0.5, 0.05))


def test_one_command_prints_it(source, vectors, tmp_path):
    (tmp_path / "talk.json").write_text(json.dumps([source]), encoding="utf-8")
    told = CliRunner().invoke(retrieval.main, ["--data", str(tmp_path / "talk.json")])
    assert told.exit_code != 0
    assert "0 files of vectors" in told.output
    np.savez(tmp_path / "talk-vectors.npz", **vectors)
    told = CliRunner().invoke(retrieval.main, ["--data", str(tmp_path / "talk.json"), "--worse"])
    assert told.exit_code == 0, told.output
    assert "4 questions in 1 conversations" in told.output
    assert "noisy vectors" in told.output
