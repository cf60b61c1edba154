"""Transducers: text in, text out, and what is said if that is not possible."""

import copy
import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import huggingface_hub
import huggingface_hub.errors as hub_errors
import pytest
import torch

from ssnt.decode import Failure, Segment
from ssnt.decode.formats import joint_sequence, pharaoh, to_record
from ssnt.errors import BackendError, ConfigError, DataError, ModelError
from ssnt.pipeline import AlignedPair, PairScore, Transducer, Transduction
from ssnt.pipeline.picture import alignment_svg, label
from ssnt.types import UNK_ID, Example
from transducers import copying_transducer, is_same_model, make_config, make_transducer, make_vocabulary

TAGS = ("X", "Y")


@pytest.fixture
def copier() -> Transducer:
    return copying_transducer()


@pytest.fixture
def tagger() -> Transducer:
    return copying_transducer(tags=TAGS)


class TestTransduce:
    @pytest.mark.parametrize("search", ["marginal", "path", "online"])
    def test_texts_come_back_in_their_order(self, copier, search):
        results = copier.transduce(["abc", "f", "deadbe", "bc"], search=search)
        assert [one.text for one in results] == ["gabc", "gf", "gdeadbe", "gbc"]
        assert results[0].source_symbols == ("a", "b", "c")
        assert results[0].target_symbols == ("g", "a", "b", "c")
        assert len(results[0].alignment.positions) == 5  # the end symbol too
        assert all(one.is_complete and 0.3 < one.probability <= 1.0 for one in results)

    def test_outputs_do_not_depend_on_what_is_beside_them(self, copier):
        texts = ["abc", "f", "deadbe", "bc"]
        together = copier.transduce(texts, batch_size=3)
        for text, one in zip(texts, together, strict=True):
            (alone,) = copier.transduce([text])
            assert (alone.text, alone.log_prob) == (one.text, pytest.approx(one.log_prob, abs=1e-5))

    def test_a_log_prob_is_that_of_the_pair(self, copier):
        (best,) = copier.transduce(["abc"], nbest=3)
        found = [best, *best.alternatives]
        assert copier.score([("abc", one.text) for one in found]) == pytest.approx(
            [one.log_prob for one in found], abs=1e-5
        )

    def test_several_outputs(self, copier):
        (best,) = copier.transduce(["abc"], nbest=6)  # more than the beam of the settings
        assert len(best.alternatives) == 5
        assert len({best.symbols, *(one.symbols for one in best.alternatives)}) == 6
        scores = [best.score, *(one.score for one in best.alternatives)]
        assert scores == sorted(scores, reverse=True)
        with pytest.raises(ConfigError, match=r"nbest must be at most beam \(2\)"):
            copier.transduce(["abc"], nbest=3, beam=2)

    def test_settings_come_from_the_model(self, copier):
        settings = {"search": "path", "beam": 1, "max_length": 2, "copy_unknown": False}
        config = make_config(search=settings, embed_size=16, hidden_size=24)
        other = Transducer(copier.model, copier.vocabulary, config)
        (found,) = other.transduce(["aZc"])
        assert found.text == "ga"
        (found,) = other.transduce(["aZc"], max_length=9)
        assert found.text == "ga<unk>c"
        assert found.log_prob == found.alignment.log_prob  # of the path search
        (found,) = other.transduce(["aZc"], max_length=9, search="marginal", beam=4, copy_unknown=True)
        assert found.text == "gaZc"
        assert found.log_prob > found.alignment.log_prob

    def test_training_end_holds_for_searches_and_scores(self, copier):
        config = make_config(training={"end": "last"}, embed_size=16, hidden_size=24)
        last = Transducer(copier.model, copier.vocabulary, config)
        (found,) = last.transduce(["ab"])
        assert found.alignment.positions[-1] == 2
        assert last.score([("ab", "gab")])[0] < copier.score([("ab", "gab")])[0]
        assert last.align([("ab", "gab")])[0].path.positions[-1] == 2
        assert last.transduce(["ab"], end="any") == copier.transduce(["ab"])

    def test_unknown_symbols_are_counted_and_copied(self, copier):
        (found,) = copier.transduce(["aZbÜ"])
        assert (found.text, found.unknown) == ("gaZbÜ", 2)
        assert found.symbols.count(UNK_ID) == 2
        assert copier.transduce(["aZb"], copy_unknown=False)[0].text == "ga<unk>b"

    def test_padding_is_never_written(self):
        transducer = make_transducer()
        with torch.no_grad():
            transducer.model.word.bias[:2] += 50.0
        for search in ("marginal", "path", "online"):
            found = transducer.transduce(["abc"], search=search, nbest=4)[0]
            assert not {0, 1} & {symbol for one in (found, *found.alternatives) for symbol in one.symbols}

    def test_text_is_normalised(self):
        trained = copying_transducer()
        transducer = Transducer(trained.model, make_vocabulary(lowercase=True), trained.config)
        assert [one.text for one in transducer.transduce(["AbC", "cAB"])] == ["gabc", "gcab"]
        (found,) = transducer.transduce(["E\u0301"])
        assert (found.source_symbols, found.unknown) == (("é",), 0)

    def test_tokens_are_joined_by_spaces(self):
        (found,) = copying_transducer("tokens").transduce([" a  b\tc "])
        assert (found.text, found.source_symbols) == ("g a b c", ("a", "b", "c"))

    def test_a_model_in_training_stays_in_training(self, copier):
        transducer = make_transducer(config=make_config(input_dropout=0.5))
        transducer.model.train()
        assert transducer.transduce(["abc"]) == transducer.transduce(["abc"])
        assert transducer.model.training
        assert transducer.score([("abc", "a")]) == transducer.score([("abc", "a")])
        assert transducer.model.training

    def test_no_texts(self, copier):
        assert copier.transduce([]) == []
        assert copier.score([]) == []
        assert copier.align([]) == []
        assert copier.stream_each([]) == []

    @pytest.mark.parametrize(
        ("texts", "message"),
        [
            ("abc", r"texts: expected a list such as \['one'\], got 'abc'"),
            (["a", ""], r"texts\[1\]: the source is empty; give at least one symbol"),
            (["a", "b" * 2001], r"texts\[1\]: the source has 2001 symbols, more than max_source_length \(2000\)"),
            (["a", None], r"texts\[1\]: the source must be text, got None"),
            ([3], r"texts\[0\]: the source must be text, got 3"),
            (7, "texts: expected a list"),
        ],
    )
    def test_texts_that_cannot_be_used(self, copier, texts, message):
        with pytest.raises(DataError, match=message):
            copier.transduce(texts)

    def test_one_bad_example_hurts_nobody_else(self, copier):
        examples = [Example("ab"), Example(""), Example("c", tags=("V",)), Example("d" * 99), Example("bc")]
        found = copier.transduce_each(examples, max_source_length=50)
        assert [one.text for one in found if isinstance(one, Transduction)] == ["gab", "gbc"]
        failures = [one for one in found if isinstance(one, Failure)]
        assert [one.index for one in failures] == [1, 2, 3]
        assert [str(one.error) for one in failures] == [
            "the source is empty; give at least one symbol",
            "the input has tags (V), and the model was trained without tags: leave them out",
            "the source has 99 symbols, more than max_source_length (50); split it",
        ]

    def test_what_is_no_example(self, copier):
        with pytest.raises(DataError, match=r"examples\[0\]: expected an Example, got str"):
            copier.transduce_each(["abc"])

    def test_a_misspelt_setting(self, copier):
        with pytest.raises(TypeError, match="beem"):
            copier.transduce(["a"], beem=3)
        with pytest.raises(ConfigError, match="beam must be a whole number of at least 1, got 0"):
            copier.transduce(["a"], beam=0)
        with pytest.raises(ConfigError, match="search must be one of 'marginal'"):
            copier.transduce(["a"], search="best")

    def test_a_bidirectional_model_is_not_online(self):
        transducer = make_transducer(config=make_config(bidirectional=True))
        assert not transducer.is_online
        reason = "'biSSNT+' reads the whole input before it writes"
        remedy = "train a model that can stream, such as uniSSNT+ (ssnt train --model uniSSNT+)"
        with pytest.raises(ModelError) as searched:
            transducer.transduce(["abc"], search="online")
        assert str(searched.value) == f"search 'online': {reason}; search 'marginal' or 'path', or {remedy}"
        with pytest.raises(ModelError) as streamed:
            transducer.stream_each([Example("abc")])
        assert str(streamed.value) == f"stream: {reason}; {remedy}"


class TestTags:
    def test_tags_are_a_set(self, tagger):
        tags = [["X"], ["Y", "X"], ["X", "Y", "Y"], [], ["Y"]]
        found = tagger.transduce(["ab"] * 5, tags)
        assert [one.text for one in found][:3] == ["gxab"] * 3
        assert found[1] == found[2]
        assert found[3].text == "gab"

    def test_unknown_tags_are_counted_and_left_out(self, tagger):
        known, unknown = tagger.transduce(["ab", "ab"], [["X"], ["Q", "X", "R"]])
        assert (known.unknown_tags, unknown.unknown_tags) == (0, 2)
        assert (unknown.text, unknown.log_prob) == (known.text, known.log_prob)
        (scored,) = tagger.score_each([Example("ab", "gxab", ("X", "Q"))])
        assert scored.unknown_tags == 1

    def test_no_tags_for_a_model_with_tags(self, tagger):
        message = r"tags: the model was trained with tags: give a list of tags for every input, such as tags=\[\['V'"
        for call in (
            lambda: tagger.transduce(["a"]),
            lambda: tagger.score([("a", "b")]),
            lambda: tagger.align([("a", "b")]),
            tagger.stream,
        ):
            with pytest.raises(DataError, match=message):
                call()

    def test_tags_for_a_model_without(self, copier):
        message = "tags: the model was trained without tags: leave them out"
        for call in (
            lambda: copier.transduce(["a"], [["V"]]),
            lambda: copier.score([("a", "b")], [["V"]]),
            lambda: copier.align([("a", "b")], [["V"]]),
            lambda: copier.stream(["V"]),
        ):
            with pytest.raises(DataError, match=message):
                call()
        assert copier.transduce(["a"], [[]]) == copier.transduce(["a"])

    @pytest.mark.parametrize(
        ("tags", "message"),
        [
            (["X", "Y"], r"tags\[0\]: tags must be a list of strings such as \['V', 'PST'\], got 'X'"),
            ([["X"]], "tags: expected a list of tags for each of the 2 texts, got 1"),
            ("X;Y", "tags: expected a list of tags for each of the 2 texts, got 'X;Y'"),
            ([["X"], [3]], r"tags\[1\]: tags must be a list of strings such as .*, got 3 in it"),
            ([["X"], None], r"tags\[1\]: tags must be a list of strings"),
        ],
    )
    def test_tags_that_are_none(self, tagger, tags, message):
        with pytest.raises(DataError, match=message):
            tagger.transduce(["a", "b"], tags)


class TestPairs:
    def test_scores(self, copier):
        right, wrong = copier.score([("abc", "gabc"), ("abc", "gcba")])
        assert wrong < right < 0.0

    def test_scores_sum_to_less_than_one(self):
        transducer = make_transducer(vocabulary=make_vocabulary("ab", "ab"))
        texts = ["", *"ab", *(x + y for x in "ab" for y in "ab")]
        total = sum(map(math.exp, transducer.score([("ab", text) for text in texts])))
        assert 0.0 < total < 1.0

    def test_each(self, copier):
        examples = [Example("abc", "gabc"), Example("aZ", "g!"), Example("", "g"), Example("a"), Example("a", "")]
        found = copier.score_each(examples)
        assert (found[0].tokens, found[0].unknown) == (5, 0)
        assert (found[1].tokens, found[1].unknown, found[1].unknown_source) == (3, 1, 1)
        assert str(found[2].error) == "the source is empty; give at least one symbol"
        assert str(found[3].error) == "the target must be text, got None; give the output that belongs to the input"
        assert isinstance(found[4], PairScore)
        assert found[4].tokens == 1
        long = copier.score_each([Example("a", "b" * 30), Example("a", "b")], max_length=20)
        assert str(long[0].error) == "the target has 30 symbols, more than max_length (20); split it"
        assert isinstance(long[1], PairScore)

    def test_pairs_that_are_none(self, copier):
        with pytest.raises(DataError, match=r"pairs\[1\]: expected an input and an output, got 3"):
            copier.score([("a", "b"), ("a", "b", "c")])
        with pytest.raises(DataError, match=r"pairs\[0\]: expected a list such as \('one', 'two'\), got 'ab'"):
            copier.score(["ab"])
        with pytest.raises(DataError, match=r"pairs\[1\]: the source is empty"):
            copier.align([("a", "b"), ("", "b")])

    def test_an_alignment(self, copier):
        (pair,) = copier.align([("abc", "gabc")])
        assert isinstance(pair, AlignedPair)
        assert pair.path.positions == (0, 0, 1, 2, 3) or pair.path.positions[:4] == (0, 0, 1, 2)
        assert (pair.source_symbols, pair.target_symbols) == (tuple("abc"), tuple("gabc"))
        assert pair.log_prob == pytest.approx(copier.score([("abc", "gabc")])[0], abs=1e-5)
        assert pair.emit.shape == (5, 4)
        assert pair.segments[0] == Segment(0, 1, 0, 2)
        # the formats of ssnt.decode take it as it is
        assert pharaoh(pair) == "0-0 0-1 1-2 2-3"
        assert joint_sequence(pair, pair.source_symbols, pair.target_symbols) == "a}g|a b}b c}c"
        assert to_record(pair, pair.source_symbols, pair.target_symbols)["log_prob"] == pair.log_prob

    def test_alignments_of_many(self, copier):
        examples = [Example("abc", "gabc"), Example("", "x"), Example("f", "gf"), Example("abcdef", "gaZ")]
        found = copier.align_each(examples, batch_size=2)
        assert [type(one) for one in found] == [AlignedPair, Failure, AlignedPair, AlignedPair]
        assert found[1].index == 1
        assert [one.src_len for one in found if isinstance(one, AlignedPair)] == [4, 2, 7]
        assert found[3].unknown == 1


class TestStreamEach:
    def test_it_writes_what_a_stream_writes(self, copier):
        texts = ["abc", "aZ", "f", "deadbe"]
        found = copier.stream_each([Example(text) for text in texts], max_delay=1, batch_size=3)
        for text, one in zip(texts, found, strict=True):
            stream = copier.stream(max_delay=1)
            updates = [*(stream.push(letter) for letter in text), stream.finish()]
            assert one.text == "".join(update.committed for update in updates)
            assert one.symbols == tuple(symbol for update in updates for symbol in update.symbols)
            delays = tuple(delay for update in updates for delay in update.delays)
            assert (one.delays, one.src_len) == ((*delays, len(text) + 1), len(text) + 1)

    def test_failures(self, tagger):
        found = tagger.stream_each([Example("", tags=("X",)), Example("ab", tags=("X",))])
        assert str(found[0].error) == "the source is empty; give at least one symbol"
        assert found[1].text == "gxab"


class TestNotebooks:
    def test_html_is_well_formed_and_escaped(self, copier):
        (found,) = copier.transduce(["a<b&\x00\ud800'"])
        html = found._repr_html_()
        assert "<svg" in html
        assert "<b&" not in html.replace("<b><bdi>", "")
        html.encode("utf-8")
        ElementTree.fromstring(html)
        HTMLParser().feed(html)
        assert f"p = {found.probability:.3g}" in html
        assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")

    def test_a_picture_shows_the_path(self, copier):
        (found,) = copier.transduce(["ab"])
        root = ElementTree.fromstring(found.alignment_svg())
        names = [one.tag.rpartition("}")[2] for one in root]
        assert names.count("circle") == 4  # g, a, b and the end
        assert names.count("rect") == 3 * 4
        assert [one.text for one in root if one.tag.endswith("text")] == ["a", "b", "∎", "g", "a", "b", "∎"]
        assert float(root.get("width")) < 200

    def test_pairs_have_pictures_too(self, copier):
        (pair,) = copier.align([("ab", "gab")])
        ElementTree.fromstring(pair._repr_html_())
        assert "<svg" in pair._repr_html_()

    def test_long_outputs_have_none(self, copier):
        (found,) = copier.transduce(["ab" * 40])
        assert found.alignment_svg() == ""
        ElementTree.fromstring(found._repr_html_())

    def test_an_empty_unfinished_output_has_none(self, copier):
        (found,) = copier.transduce(["ab"], max_length=0, beam=1)
        assert found.text == ""
        ElementTree.fromstring(found._repr_html_())
        assert alignment_svg([], [], []) == ""

    @pytest.mark.parametrize(
        ("symbol", "shown"),
        [
            (" ", "␣"),
            ("\u0301", "◌\u0301"),
            ("\n", "U+000A"),
            ("\ud800", "U+D800"),
            ("x" * 30, "x" * 13 + "…"),
            ("é", "é"),
        ],
    )
    def test_labels(self, symbol, shown):
        assert label(symbol) == shown


class TestObjects:
    def test_a_transducer_can_be_copied(self, copier):
        other = copy.deepcopy(copier)
        assert is_same_model(copier, other)
        assert other.model is not copier.model
        assert other.transduce(["ab"]) == copier.transduce(["ab"])

    def test_its_parts_must_fit(self, copier):
        with pytest.raises(ModelError, match=r"the vocabulary has .*, and the model was built for"):
            Transducer(copier.model, make_vocabulary("ab"), copier.config)

    def test_properties(self, copier, tagger):
        assert copier.is_online
        assert not copier.has_tags
        assert tagger.has_tags
        assert copier.device == torch.device("cpu")
        assert "uniSSNT+" in repr(copier)

    def test_a_device_that_is_not_there(self, tmp_path):
        make_transducer().save_pretrained(tmp_path / "model")
        with pytest.raises(BackendError, match="device 'nonsense' cannot be used here"):
            Transducer.from_pretrained(tmp_path / "model", device="nonsense")


class TestHub:
    def test_a_local_directory_comes_first(self, tmp_path, monkeypatch):
        monkeypatch.setattr(huggingface_hub, "snapshot_download", None)
        monkeypatch.chdir(tmp_path)
        make_transducer().save_pretrained("model")
        assert is_same_model(Transducer.from_pretrained("model"), make_transducer())
        assert is_same_model(Transducer.from_pretrained(Path("model")), make_transducer())
        with pytest.raises(ModelError, match="is a local directory, which has no revisions"):
            Transducer.from_pretrained("model", revision="v1")

    def test_a_model_is_downloaded(self, tmp_path, monkeypatch):
        calls: list[Any] = []

        def download(repo_id: str, **options: Any) -> str:
            calls.append((repo_id, options))
            return str(tmp_path / "model")

        make_transducer().save_pretrained(tmp_path / "model")
        monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
        found = Transducer.from_pretrained("someone/participles", revision="v1")
        assert is_same_model(found, make_transducer())
        ((repo_id, options),) = calls
        assert (repo_id, options["revision"]) == ("someone/participles", "v1")
        assert "model.safetensors" in options["allow_patterns"]
        assert not any(pattern.startswith("*") for pattern in options["allow_patterns"])

    @pytest.mark.parametrize("name", ["./missing", "/missing/model", "a/b/c", "some where/else", "../x", "", "-x/y"])
    def test_neither_a_directory_nor_a_name(self, name, monkeypatch, tmp_path):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(huggingface_hub, "snapshot_download", None)
        if name == "":
            return  # the working directory
        message = (
            r"there is no such directory, and it is not a name on the Hugging Face hub either \(expected owner/name\)"
        )
        with pytest.raises(ModelError, match=message):
            Transducer.from_pretrained(name)

    def test_a_file(self, tmp_path):
        make_transducer().save_pretrained(tmp_path / "model")
        with pytest.raises(ModelError, match=r"config.yaml: is a file; expected a model directory"):
            Transducer.from_pretrained(tmp_path / "model" / "config.yaml")

    @pytest.mark.parametrize(
        "error",
        [
            ConnectionError("no route\nto host"),
            hub_errors.OfflineModeIsEnabled("offline mode"),
            hub_errors.LocalEntryNotFoundError("no connection"),
            hub_errors.HFValidationError("bad name"),
            RuntimeError("whatever"),
        ],
    )
    def test_a_hub_that_cannot_be_reached(self, monkeypatch, tmp_path, error):
        def download(repo_id: str, **options: Any) -> str:
            raise error

        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
        message = (
            r"someone/model: there is no such directory, and it could not be had from the Hugging Face hub "
            rf"\({type(error).__name__}: .*\); check the path, or the name on the hub and the connection"
        )
        with pytest.raises(ModelError, match=message) as caught:
            Transducer.from_pretrained("someone/model")
        assert "\n" not in str(caught.value)

    def test_a_model_is_uploaded(self, monkeypatch):
        calls: dict[str, Any] = {}

        class Api:
            def __init__(self, **options: Any) -> None:
                calls["token"] = options["token"]

            def create_repo(self, repo_id: str, **options: Any) -> str:
                calls["create"] = (repo_id, options)
                return f"https://hub/{repo_id}"

            def upload_folder(self, *, repo_id: str, folder_path: str, **options: Any) -> None:
                calls["upload"] = (repo_id, options)
                calls["card"] = (Path(folder_path) / "README.md").read_text(encoding="utf-8")
                calls["model"] = Transducer.from_pretrained(folder_path)
                calls["folder"] = Path(folder_path)

        monkeypatch.setattr(huggingface_hub, "HfApi", Api)
        address = make_transducer().push_to_hub("someone/new", private=True, token="x", revision="main")
        assert address == "https://hub/someone/new"
        assert calls["create"][0] == calls["upload"][0] == "someone/new"
        assert calls["create"][1]["private"] is True
        assert calls["create"][1]["exist_ok"] is True
        assert calls["upload"][1]["revision"] == "main"
        assert calls["token"] == "x"
        assert "from_pretrained('someone/new')" in calls["card"]
        assert is_same_model(calls["model"], make_transducer())
        assert not calls["folder"].exists()

    def test_a_hub_that_refuses(self, monkeypatch):
        class Api:
            def __init__(self, **options: Any) -> None:
                pass

            def create_repo(self, repo_id: str, **options: Any) -> str:
                raise PermissionError("not yours")

        monkeypatch.setattr(huggingface_hub, "HfApi", Api)
        message = (
            r"someone/new: could not be put on the Hugging Face hub \(PermissionError: not yours\); .*hf auth login"
        )
        with pytest.raises(ModelError, match=message):
            make_transducer().push_to_hub("someone/new")
