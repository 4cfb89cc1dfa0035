"""What passes as an answer of an embedder, whatever kind it is; functions, the trial embedder, and specs."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

from amemdb.embed import trial
from amemdb.embed.embedder import Embedder, EmbedError
from amemdb.embed.endpoint import EndpointEmbedder
from amemdb.embed.function import FunctionEmbedder, imported
from amemdb.embed.spec import embedder_of


def function(answer):
    return FunctionEmbedder("f", lambda texts: answer)


@pytest.mark.parametrize(
    "answer",
    [
        np.array([[1, 2], [3, 4]], np.float64),
        np.array([[1, 2], [3, 4]], np.float16),
        np.array([[1, 2], [3, 4]], ">f4"),
        np.array([[1, 2], [3, 4]], order="F"),
        [[1, 2], [3.0, 4.0]],
        (np.array([1, 2]), [3, 4]),
        iter([[1, 2], (3, 4)]),
    ],
)
def test_rows_of_numbers_of_any_sort_are_vectors(answer):
    vectors = function(answer).embed(["a", "b"])
    assert vectors.tolist() == [[1, 2], [3, 4]]
    assert vectors.dtype == np.dtype("<f4")
    assert vectors.flags.c_contiguous


def endless():
    while True:
        yield [1, 2]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "expected 2 vectors, got NoneType"),
        (3, "expected 2 vectors, got int"),
        ("ab", "vector 1 is not a row of numbers"),
        ([[1, 2]], "expected 2 vectors, got 1"),
        ([[1, 2]] * 3, "expected 2 vectors, got more"),
        (endless(), "expected 2 vectors, got more"),
        ([[1, 2], [1, 2, 3]], "2 and 3 components"),
        ([[], []], "expected 1 to 65536 components, got 0"),
        (np.ones((2, 65_537)), "expected 1 to 65536 components, got 65537"),
        (np.ones(2), "shape"),
        (np.ones((2, 2, 2)), "shape"),
        ([[1, 2], [1, [2]]], "vector 2 is not a row of numbers"),
        ([["1", "2"], [1, 2]], "vector 1 is not a row of numbers"),
        ([[1, 2], [1, 2j]], "vector 2 is not a row of numbers"),
        ([[1, 2], [True, False]], "vector 2 is not a row of numbers"),
        ([[1, 2], [1, float("nan")]], "vector 2 has a component that is not finite"),
        ([[1, 2], [1, float("-inf")]], "vector 2 has a component that is not finite"),
        ([[1, 2], [1, 1e300]], "vector 2 has a component that is not finite"),
        ([[1, 2], [1, 10**400]], "vector 2 is not a row of numbers"),
    ],
)
def test_any_other_answer_is_an_error(answer, told):
    with pytest.raises(EmbedError, match=told) as caught:
        function(answer).embed(["a", "b"])
    assert str(caught.value).startswith("embedder 'f': ")


def test_no_texts_are_not_asked_for():
    assert function(None).embed([]).shape == (0, 0)


def test_the_dimension_is_known_from_the_first_answer_on():
    answers = iter([[[1.0, 2.0]], [[1.0]], [[3.0, 4.0]]])
    model = FunctionEmbedder("f", lambda texts: next(answers))
    assert model.dim is None
    model.embed(["a"])
    assert model.dim == 2
    with pytest.raises(EmbedError, match="made vectors of 2 components before, and now of 1"):
        model.embed(["b"])
    assert model.embed(["c"]).tolist() == [[3, 4]]
    assert model.embed([]).shape == (0, 2)


def test_what_a_function_raises_is_told_in_one_printable_line():
    def fail(texts):
        raise KeyError("a\r\nb\x1b[31m" + "x" * 5000)

    with pytest.raises(EmbedError) as caught:
        FunctionEmbedder("f\r\n", fail).embed(["a"])
    told = str(caught.value)
    assert told.startswith("embedder 'f??': KeyError: ")
    assert told.isprintable()
    assert len(told) < 400


def test_a_function_that_ends_the_program_does_not():
    with pytest.raises(EmbedError, match="SystemExit: 3"):
        FunctionEmbedder("f", lambda texts: sys.exit(3)).embed(["a"])


def test_a_function_cannot_change_the_texts_of_others():
    texts = ["a", "b"]
    FunctionEmbedder("f", lambda given: [[1.0] for _ in range(len(given)) if given.pop() is not None]).embed(texts)
    assert texts == ["a", "b"]


# -- functions by name -------------------------------------------------------------------------------


def test_a_function_is_found_by_its_name():
    assert imported("amemdb.embed.trial:words") is trial.words
    model = embedder_of("callable:amemdb.embed.trial:words", {})
    assert model.name == "amemdb.embed.trial:words"
    assert model.embed(["x"]).shape == (1, trial.DIM)


def test_a_function_is_found_in_the_folder_the_program_runs_in(tmp_path, monkeypatch):
    (tmp_path / "only_here_for_a_test.py").write_text("class Model:\n    @staticmethod\n    def f(t): return [[1]]\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert imported("only_here_for_a_test:Model.f")(["a"]) == [[1]]
    assert sys.path == before
    del sys.modules["only_here_for_a_test"]


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("nowhere_at_all:f", "cannot be imported: ModuleNotFoundError"),
        ("amemdb.embed.trial:none", "cannot be imported: AttributeError"),
        ("amemdb.embed.trial:DIM", "is no function but int"),
        ("amemdb.embed.trial", "expected callable:package.module:function"),
        (":f", "expected callable:package.module:function"),
    ],
)
def test_a_function_that_is_not_there_is_told_at_once(target, told):
    with pytest.raises(EmbedError, match=told):
        embedder_of(f"callable:{target}", {})


def test_texts_that_share_words_are_near_each_other():
    a, b, c, empty = trial.words(["the red car", "A RED CAR", "quantum chromodynamics", "!"])
    assert a @ b > 0.6
    assert abs(a @ c) < 0.4
    assert np.allclose(np.linalg.norm([a, b, c, empty], axis=1), 1)


# -- specs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    ["", "openai", "openai:", "openai:@http://h", "http:x", "Openai:m", "callable:", "model2vec:", "openai:a\nb", ":x"],
)
def test_what_is_no_spec_is_refused(spec):
    with pytest.raises(EmbedError, match="expected "):
        embedder_of(spec, {})


@pytest.mark.parametrize(
    "base",
    ["", "h/v1", "ftp://h/v1", "http://", "http:///v1", "http://h:x/", "http://h/?a=b", "http://h /v1", "http://h/ü"],
)
def test_an_address_that_is_none_is_refused(base):
    with pytest.raises(EmbedError, match=r"expected an address like https://host/v1"):
        embedder_of(f"openai:m@{base}", {})


def test_an_address_with_a_password_is_refused_and_not_told():
    with pytest.raises(EmbedError) as caught:
        embedder_of("openai:m@https://user:hidden@host/v1", {})
    assert "hidden" not in str(caught.value)


def test_a_name_of_its_own():
    model = embedder_of("callable:amemdb.embed.trial:words#trial", {})
    assert model.name == "trial"
    assert embedder_of("openai:m@http://h/v1", {}).name == "m"
    assert embedder_of("openai:m@http://h/v1#other", {}).name == "other"
    with pytest.raises(EmbedError, match="longer than 1024 bytes"):
        embedder_of("openai:m#" + "x" * 1025, {})


def key_of(model: Embedder) -> str:
    assert isinstance(model, EndpointEmbedder)
    return model._key()


def test_the_key_of_openai_goes_to_openai_only():
    environ = {"OPENAI_API_KEY": "sk-o"}
    assert key_of(embedder_of("openai:m", environ)) == "sk-o"
    assert key_of(embedder_of("openai:m@https://api.openai.com/v1", environ)) == "sk-o"
    assert key_of(embedder_of("openai:m@http://api.openai.com/v1", environ)) == ""
    assert key_of(embedder_of("openai:m@https://example.org/v1", environ)) == ""
    assert key_of(embedder_of("openai:m@https://example.org/v1", {**environ, "AMEMDB_EMBEDDER_KEY": "k"})) == "k"
    assert key_of(embedder_of("openai:m", {**environ, "AMEMDB_EMBEDDER_KEY": "k"})) == "k"


def test_a_key_is_read_from_its_file_each_time(tmp_path):
    file = tmp_path / "key"
    file.write_text("first\n")
    model = embedder_of("openai:m@http://h/v1", {"AMEMDB_EMBEDDER_KEY": "other"}, str(file))
    assert key_of(model) == "first"
    file.write_text("second")
    assert key_of(model) == "second"
    file.unlink()
    with pytest.raises(EmbedError, match="the file of its key cannot be read: No such file"):
        key_of(model)
    with pytest.raises(EmbedError, match="the file of its key cannot be read"):
        embedder_of("openai:m@http://h/v1", {}, str(file))


@pytest.mark.parametrize("key", ["a b", "a\nb", "ü", "x" * 5000, "a\x00b"])
def test_a_key_that_is_none_is_refused_and_not_told(key, tmp_path):
    file = tmp_path / "key"
    file.write_text(key)
    with pytest.raises(EmbedError, match="its key is not one word of printable ASCII") as caught:
        embedder_of("openai:m", {}, str(file))
    assert key not in str(caught.value)


# -- libraries ---------------------------------------------------------------------------------------


class Encoder:
    """What both libraries' models have in common."""

    def __init__(self, source: str) -> None:
        self.source = source

    def encode(self, texts, show_progress_bar=True):
        assert show_progress_bar is False
        if "bad" in texts:
            raise RuntimeError("cannot encode")
        return np.array([[len(text), 1.0] for text in texts], np.float32)


@pytest.fixture
def libraries(monkeypatch):
    """Stand-ins of both, which remember what they were asked to load."""
    loaded = []

    def load(source, trust_remote_code=False, force_download=False):
        assert not trust_remote_code
        assert not force_download
        loaded.append(source)
        if source == "missing":
            raise OSError("no such model")
        return Encoder(source)

    transformers, static = ModuleType("sentence_transformers"), ModuleType("model2vec")
    transformers.SentenceTransformer = load  # type: ignore[attr-defined]
    static.StaticModel = type("StaticModel", (), {"from_pretrained": staticmethod(load)})  # type: ignore[attr-defined]
    for module in (transformers, static):
        module.__spec__ = __import__("importlib.machinery").machinery.ModuleSpec(module.__name__, None)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return loaded


@pytest.mark.parametrize("kind", ["sentence-transformers", "model2vec"])
def test_a_library_loads_its_model_when_it_is_first_needed_and_once(libraries, kind):
    model = embedder_of(f"{kind}:some/model", {})
    assert (libraries, model.dim) == ([], None)
    model.prepare()
    assert model.dim == 2
    assert model.embed(["ab", "abc"]).tolist() == [[2, 1], [3, 1]]
    model.prepare()
    model.embed(["x"])
    assert libraries == ["some/model"]
    assert (model.name, model.dim) == ("some/model", 2)


@pytest.mark.parametrize("kind", ["sentence-transformers", "model2vec"])
def test_what_a_library_raises_is_told(libraries, kind):
    with pytest.raises(EmbedError, match=r"^embedder 'missing': 'missing' cannot be loaded: OSError: no such model$"):
        embedder_of(f"{kind}:missing", {}).prepare()
    with pytest.raises(EmbedError, match="RuntimeError: cannot encode") as caught:
        embedder_of(f"{kind}:some", {}).embed(["good", "bad"])
    assert caught.value.texts_at_fault


@pytest.mark.parametrize("package", ["sentence-transformers", "model2vec"])
def test_a_library_that_is_not_installed_is_told_at_once(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package.replace("-", "_"), None)
    with pytest.raises(EmbedError, match=rf"needs the package {package}: pip install 'amemdb\[embed-local\]'"):
        embedder_of(f"{package}:m", {})


def test_a_real_model_of_model2vec_from_a_folder(tmp_path):
    model2vec = pytest.importorskip("model2vec", reason="needs the package model2vec")
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"[UNK]": 0, "car": 1, "red": 2, "sky": 3}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    rows = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, -1, 0]], np.float32)
    model2vec.StaticModel(rows, tokenizer, config={"normalize": False}).save_pretrained(str(tmp_path))
    model = embedder_of(f"model2vec:{tmp_path}#tiny", {})
    assert np.allclose(model.embed(["car", "red car"]), [[1, 0, 0], [0.5, 0.5, 0]])
    assert (model.name, model.dim) == ("tiny", 3)


def test_a_real_model_of_sentence_transformers_from_a_folder(tmp_path):
    library = pytest.importorskip("sentence_transformers", reason="needs the package sentence-transformers")
    tokenizers = pytest.importorskip("tokenizers")
    modules = pytest.importorskip("sentence_transformers.models")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "car": 1, "red": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    rows = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]], np.float32)
    table = modules.StaticEmbedding(tokenizer, embedding_weights=rows)
    library.SentenceTransformer(modules=[table]).save(str(tmp_path))
    model = embedder_of(f"sentence-transformers:{tmp_path}#tiny", {})
    assert np.allclose(model.embed(["car", "red car"]), [[1, 0, 0], [0.5, 0.5, 0]])
    assert (model.name, model.dim) == ("tiny", 3)
