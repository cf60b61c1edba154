import errno
import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ssnt.config import DataConfig
from ssnt.data import cache, numbering
from ssnt.data import prepared as module
from ssnt.data.cache import cache_directory, new_entry, read_entry
from ssnt.data.prepared import prepare, prepare_examples
from ssnt.data.readers import read_examples
from ssnt.errors import DataError, StorageError
from ssnt.types import EOS_ID, UNK_ID, Example


@pytest.fixture
def root(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def settings(root):
    def make(**changes):
        return DataConfig(**{"cache": str(root), "format": "sigmorphon2017", **changes})

    return make


VERBS = "zocken\tgezockt\tV;PTCP;PST\nrufen\tgerufen\tV;PTCP;PST\nzocken\tzockt\tV;3;PRS\nsein\tist\tV\n"


@pytest.fixture
def verbs(tmp_path):
    path = tmp_path / "verbs.tsv"
    path.write_text(VERBS, encoding="utf-8")
    return str(path)


@pytest.fixture
def no_work(monkeypatch):
    """Makes it an error to prepare anything."""

    def forbid():
        def refuse(*arguments):
            raise AssertionError("this was to come from the cache")

        monkeypatch.setattr(module, "_fill", refuse)

    return forbid


def decoded(prepared):
    """Every example as text again, read back through the vocabulary."""
    vocabulary = prepared.vocabulary
    examples = []
    for number in range(len(prepared)):
        src, tgt = prepared.src[number].tolist(), prepared.tgt[number].tolist()
        assert src.pop() == tgt.pop() == EOS_ID
        tags = [] if prepared.tags is None else prepared.tags[number].tolist()
        examples.append(
            Example(
                vocabulary.source_unit.join([vocabulary.source.names[one] for one in src]),
                vocabulary.target_unit.join([vocabulary.target.names[one] for one in tgt]),
                tuple(vocabulary.tags.names[one - 1] for one in tags),
                int(prepared.lines[number]),
            )
        )
    return examples


def entries(root):
    return sorted(path.name for path in (root / "prepared").iterdir())


def test_numbers_lead_back_to_the_text(verbs, settings):
    prepared = prepare(verbs, settings(), None, is_training=True)
    assert decoded(prepared) == list(read_examples(verbs, settings()))
    assert len(prepared) == 4
    assert prepared.src_lens.tolist() == [7, 6, 7, 5]
    assert prepared.tgt_lens.tolist() == [8, 8, 6, 4]
    assert prepared.src.values.dtype == np.int32
    assert prepared.data_hash == hashlib.sha256(VERBS.encode()).hexdigest()
    assert prepared.report.kept == 4
    assert prepared.unseen == prepared.unseen_tags == Counter()


def test_the_vocabulary_is_that_of_the_counts(verbs, settings):
    vocabulary = prepare(verbs, settings(), None, is_training=True).vocabulary
    assert vocabulary.source.symbols == tuple("enckozfirsu")  # counted by hand
    assert vocabulary.tags.names == ("V", "PST", "PTCP", "3", "PRS")


@pytest.mark.parametrize("piece", [1, 2, 5, 7, 1 << 16])
def test_pieces_make_no_difference(verbs, settings, monkeypatch, piece):
    monkeypatch.setattr(numbering, "_PIECE", piece)
    prepared = prepare(verbs, settings(), None, is_training=True)
    assert decoded(prepared) == list(read_examples(verbs, settings()))
    assert prepared.vocabulary.source.symbols == tuple("enckozfirsu")


def test_arrays_are_mapped_and_cannot_be_written(verbs, settings):
    prepared = prepare(verbs, settings(), None, is_training=True)
    assert isinstance(prepared.src.values.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        prepared.src.values[0] = 0


def test_the_second_start_reads_no_text(verbs, settings, no_work, root):
    first = prepare(verbs, settings(), None, is_training=True)
    dev = prepare(verbs, settings(), first.vocabulary, is_training=False)
    assert len(entries(root)) == 2
    no_work()
    second = prepare(verbs, settings(), None, is_training=True)
    assert decoded(second) == decoded(first)
    assert second.vocabulary == first.vocabulary
    assert (second.report, second.data_hash) == (first.report, first.data_hash)
    assert decoded(prepare(verbs, settings(), second.vocabulary, is_training=False)) == decoded(dev)


def test_content_counts_and_not_the_name(verbs, settings, no_work, tmp_path):
    prepare(verbs, settings(), None, is_training=True)
    moved = tmp_path / "moved.tsv"
    os.rename(verbs, moved)
    no_work()
    assert len(prepare(str(moved), settings(), None, is_training=True)) == 4


def test_a_changed_file_is_prepared_anew_whatever_its_size_and_date(verbs, settings):
    before = os.stat(verbs)
    prepare(verbs, settings(), None, is_training=True)
    Path(verbs).write_text(VERBS.replace("sein\tist", "mein\tißt").replace("ß", "s"), encoding="utf-8")
    os.utime(verbs, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(verbs).st_size == before.st_size
    assert decoded(prepare(verbs, settings(), None, is_training=True))[3].source == "mein"


@pytest.mark.parametrize(
    "change",
    [
        {"lowercase": True},
        {"digits_to_hash": True},
        {"min_count": 2},
        {"max_source_vocab": 3},
        {"max_target_vocab": 3},
        {"share_vocab": True},
        {"max_source_length": 5},
        {"max_target_length": 5},
        {"max_cells": 30},
        {"source_unit": "graphemes"},
        {"target_unit": "tokens"},
        {"tag_separator": "T"},
        {"format": "tsv"},
        {"format": "tsv", "source_column": 2, "target_column": 1},
        {"format": "tsv", "tags_column": 3},
        {"source_unit": "bpe"},
        {"source_unit": "bpe", "bpe_size": 30},
    ],
    ids=str,
)
def test_every_setting_that_matters_has_its_own_entry(verbs, settings, root, change):
    prepare(verbs, settings(), None, is_training=True)
    prepare(verbs, settings(**change), None, is_training=True)
    assert len(entries(root)) == 2


def test_a_setting_that_does_not_matter_has_no_entry_of_its_own(verbs, settings, no_work):
    prepare(verbs, settings(), None, is_training=True)
    no_work()
    prepare(verbs, settings(bpe_size=99, train="x", dev="y"), None, is_training=True)
    prepare(verbs, settings(source_unit="characters", tag_separator=";"), None, is_training=True)


@pytest.mark.parametrize(
    ("unit", "package"),
    [("characters", None), ("graphemes", "regex"), ("bpe", "tokenizers")],
)
@pytest.mark.parametrize("has_vocabulary", [False, True])
def test_another_version_of_what_divides_text_has_its_own_entry(
    verbs, settings, root, monkeypatch, unit, package, has_vocabulary
):
    data = settings(source_unit=unit)
    vocabulary = prepare(verbs, data, None, is_training=True).vocabulary if has_vocabulary else None
    real = module.version

    def entries_after(**versions):
        with monkeypatch.context() as patch:
            patch.setattr(module, "version", lambda name: versions.get(name, real(name)))
            patch.setattr(module, "unicodedata", SimpleNamespace(unidata_version=versions.get("unicode", "15")))
            patch.setattr(module, "__version__", versions.get("ssnt", "1"))
            patch.setattr(module, "FORMAT_VERSION", versions.get("layout", 1))
            prepare(verbs, data, vocabulary, is_training=True)
        return len(entries(root))

    before = entries_after()
    assert entries_after() == before, "nothing has changed"
    for number, changed in enumerate(({"unicode": "99"}, {"ssnt": "99"}, {"layout": 99}), start=1):
        assert entries_after(**changed) == before + number
    for name in ("regex", "tokenizers", "numpy"):
        known = len(entries(root))
        assert entries_after(**{name: "99"}) == known + (name == package)


def test_another_vocabulary_or_purpose_has_its_own_entry(verbs, settings, root):
    one = prepare(verbs, settings(max_source_length=5), None, is_training=True).vocabulary
    other = prepare(verbs, settings(max_source_length=5, min_count=2), None, is_training=True).vocabulary
    for vocabulary in (one, other):
        for is_training in (True, False):
            prepare(verbs, settings(max_source_length=5), vocabulary, is_training=is_training)
    assert len(entries(root)) == 6


def test_unseen_symbols_and_tags_are_counted(verbs, settings, tmp_path):
    vocabulary = prepare(verbs, settings(), None, is_training=True).vocabulary
    dev = tmp_path / "dev.tsv"
    dev.write_text("quizzen\tgequizzt\tV;PST;FUT\nxy\txx\tFUT\n", encoding="utf-8")
    for _ in range(2):  # the second comes from the cache
        prepared = prepare(str(dev), settings(), vocabulary, is_training=False)
        assert prepared.unseen_source == Counter("qxy")
        assert prepared.unseen_target == Counter("qxx")
        assert prepared.unseen == Counter("qqxxxy")
        assert prepared.unseen_tags == Counter(FUT=2)
        assert prepared.src[1].tolist() == [UNK_ID, UNK_ID, EOS_ID]
        assert [row.tolist() for row in (prepared.tags[0], prepared.tags[1])] == [[1, 2], []]
        assert prepared.vocabulary is vocabulary


def test_rare_symbols_of_the_training_data_are_unknown_but_not_unseen(verbs, settings):
    prepared = prepare(verbs, settings(min_count=2), None, is_training=True)
    assert prepared.src[3].tolist().count(UNK_ID) == 2  # s and i of sein
    assert prepared.unseen == Counter()


def test_a_word_written_like_a_special_symbol(tmp_path, settings):
    path = tmp_path / "words.tsv"
    path.write_text("a </s> <unk>\t<pad> <s>\n" * 2, encoding="utf-8")
    prepared = prepare(
        str(path), settings(format="tsv", source_unit="tokens", target_unit="tokens"), None, is_training=True
    )
    assert decoded(prepared)[0] == Example("a </s> <unk>", "<pad> <s>", (), 1)
    assert min(prepared.src[0][:-1].tolist() + prepared.tgt[0][:-1].tolist()) > UNK_ID


def test_normalisation_is_the_settings_in_training_and_the_vocabularys_after(tmp_path, settings):
    path = tmp_path / "words.tsv"
    path.write_text("In 1999\tIM JAHR 2000\n" * 2, encoding="utf-8")
    data = settings(format="tsv", source_unit="tokens", lowercase=True, digits_to_hash=True)
    prepared = prepare(str(path), data, None, is_training=True)
    assert decoded(prepared)[0] == Example("in ####", "im jahr ####", (), 1)
    plain = settings(format="tsv", source_unit="characters")
    again = prepare(str(path), plain, prepared.vocabulary, is_training=False)
    assert decoded(again) == decoded(prepared)
    assert again.unseen == Counter()


def test_a_shared_vocabulary(verbs, settings):
    for _ in range(2):
        prepared = prepare(verbs, settings(share_vocab=True), None, is_training=True)
        assert prepared.vocabulary.source is prepared.vocabulary.target
        assert decoded(prepared) == list(read_examples(verbs, settings()))


@pytest.mark.parametrize("share", [False, True])
def test_byte_pair_units(verbs, settings, share):
    data = settings(source_unit="bpe", target_unit="bpe", bpe_size=20, share_vocab=share)
    for _ in range(2):
        prepared = prepare(verbs, data, None, is_training=True)
        assert decoded(prepared) == list(read_examples(verbs, settings()))
    assert (prepared.vocabulary.source_unit == prepared.vocabulary.target_unit) is share
    assert max(map(len, prepared.vocabulary.source.symbols)) > 1


def test_packed_files(verbs, settings, tmp_path):
    packed = tmp_path / "verbs.tsv.gz"
    packed.write_bytes(gzip.compress(VERBS.encode()))
    prepared = prepare(str(packed), settings(), None, is_training=True)
    assert decoded(prepared) == list(read_examples(verbs, settings()))
    assert prepared.data_hash == hashlib.sha256(packed.read_bytes()).hexdigest()


def test_parallel_text(tmp_path, settings):
    (tmp_path / "x.src").write_text("a b\nc\n", encoding="utf-8")
    (tmp_path / "x.tgt").write_text("d\ne f\n", encoding="utf-8")
    data = settings(format="parallel")
    first = prepare(str(tmp_path / "x"), data, None, is_training=True)
    assert [(one.source, one.target) for one in decoded(first)] == [("a b", "d"), ("c", "e f")]
    assert first.tags is None
    (tmp_path / "x.tgt").write_text("d\ne g\n", encoding="utf-8")
    second = prepare(str(tmp_path / "x"), data, None, is_training=True)
    assert decoded(second)[1].target == "e g"
    assert first.data_hash != second.data_hash


def test_without_tags(verbs, settings):
    prepared = prepare(verbs, settings(format="tsv"), None, is_training=True)
    assert prepared.tags is None
    assert prepared.vocabulary.tags is None
    # data with tags for a vocabulary without: nobody asks for them
    assert prepare(verbs, settings(), prepared.vocabulary, is_training=False).tags is None


def test_a_file_without_the_tags_that_the_vocabulary_has(verbs, settings):
    vocabulary = prepare(verbs, settings(), None, is_training=True).vocabulary
    with pytest.raises(DataError, match=r"verbs\.tsv: tags are needed, and the file has no column of tags"):
        prepare(verbs, settings(format="tsv"), vocabulary, is_training=False)


def test_filters_are_for_training_data_only(verbs, settings):
    with open(verbs, "a", encoding="utf-8") as file:
        file.write("sein\tsei\tV\n")
    data = settings(max_source_length=5, max_cells=15)
    training = prepare(verbs, data, None, is_training=True)
    assert [one.line for one in decoded(training)] == [4, 5]
    assert training.report.taken == {"max_source_length": 2, "max_cells": 1}
    assert training.vocabulary.source.symbols == tuple("eins")  # of what is left
    assert prepare(verbs, data, None, is_training=True).report == training.report  # from the cache
    assert len(prepare(verbs, data, training.vocabulary, is_training=False)) == 5
    assert len(prepare(verbs, data, training.vocabulary, is_training=True)) == 2


def test_nothing_left_after_the_filters(verbs, settings, root):
    with pytest.raises(DataError) as caught:
        prepare(verbs, settings(max_source_length=4, max_cells=10), None, is_training=True)
    assert str(caught.value) == (
        f"{verbs}: none of 4 pairs is left after the filters, which took 3 by data.max_source_length (4), "
        "1 by data.max_cells (10); raise these limits"
    )
    assert entries(root) == []


def test_a_bad_line_leaves_nothing_behind(tmp_path, settings, root):
    path = tmp_path / "bad.tsv"
    path.write_text("a\tb\tV\nc\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"bad\.tsv:2: no target"):
        prepare(str(path), settings(), None, is_training=True)
    assert entries(root) == []


def test_standard_input_is_refused(settings):
    with pytest.raises(DataError) as caught:
        prepare("-", settings(), None, is_training=True)
    assert str(caught.value) == (
        "<stdin>: training and dev data cannot come from standard input: it is read more than once, which only a file "
        "can be; save it to one first"
    )


def test_a_pipe_is_refused(tmp_path, settings):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="pipe: training and dev data cannot come from a pipe or device"):
        prepare(str(tmp_path / "pipe"), settings(), None, is_training=True)


@pytest.mark.parametrize(
    ("name", "form", "message"),
    [
        ("nothing.tsv", "tsv", r"nothing\.tsv: no such file"),
        ("", "tsv", "this is a directory; expected a file"),
        ("nothing", "parallel", r"nothing\.src: no such file: '.*nothing' should name parallel text without .src"),
    ],
)
def test_what_cannot_be_read(tmp_path, settings, name, form, message):
    with pytest.raises(DataError, match=message):
        prepare(str(tmp_path / name), settings(format=form), None, is_training=True)


def test_a_file_that_changes_while_it_is_read(verbs, settings, root, monkeypatch):
    fill = module._fill

    def fill_and_change(*arguments):
        result = fill(*arguments)
        Path(verbs).write_text(VERBS + "a\tb\tV\n", encoding="utf-8")
        return result

    monkeypatch.setattr(module, "_fill", fill_and_change)
    with pytest.raises(DataError, match=r"verbs\.tsv: was changed while it was read; try again"):
        prepare(verbs, settings(), None, is_training=True)
    assert entries(root) == []


def test_a_vocabulary_comes_from_training_data_only(verbs, settings):
    with pytest.raises(DataError, match="a vocabulary is made from training data only"):
        prepare(verbs, settings(), None, is_training=False)
    with pytest.raises(DataError, match="a vocabulary is made from training data only"):
        prepare_examples([Example("a", "b")], settings(), None, is_training=False)


def test_examples_in_memory(verbs, settings, root):
    examples = list(read_examples(verbs, settings()))
    prepared = prepare_examples(examples, settings(), None, is_training=True)
    assert decoded(prepared) == examples
    assert prepared.vocabulary == prepare(verbs, settings(cache=str(root)), None, is_training=True).vocabulary
    filtered = prepare_examples(examples, settings(max_source_length=5), prepared.vocabulary, is_training=True)
    assert decoded(filtered) == [examples[1], examples[3]]
    unseen = prepare_examples([Example("x", "g", ("V",))], settings(), prepared.vocabulary, is_training=False)
    assert unseen.unseen_source == Counter("x")


def test_examples_in_memory_are_not_cached(verbs, settings, root):
    prepare_examples(list(read_examples(verbs, settings())), settings(), None, is_training=True)
    assert not root.exists()


def test_examples_in_memory_that_cannot_be_used(settings):
    with pytest.raises(DataError, match="examples: there is no example"):
        prepare_examples([], settings(), None, is_training=True)
    with pytest.raises(DataError, match="examples:3: has no target"):
        prepare_examples([Example("a", None, (), 3)], settings(), None, is_training=True)


def test_examples_in_memory_and_a_full_disk(settings, monkeypatch, tmp_path):
    def refuse(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(numbering._RawFile, "write", refuse)
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
    with pytest.raises(StorageError) as caught:
        prepare_examples([Example("a", "b")], settings(), None, is_training=True)
    assert str(caught.value) == (
        f"{tmp_path}: could not be written (No space left on device); free some space, or set TMPDIR to another "
        "directory"
    )
    assert list(tmp_path.iterdir()) == []


# The cache.


def cut_off(name):
    def damage(entry):
        content = (entry / name).read_bytes()
        (entry / name).write_bytes(content[:-3])

    return damage


def alter(name):
    def damage(entry):
        content = bytearray((entry / name).read_bytes())
        content[-5] ^= 1
        (entry / name).write_bytes(bytes(content))

    return damage


def remove(name):
    return lambda entry: (entry / name).unlink()


def with_key_of_another(entry):
    manifest = json.loads((entry / "manifest.json").read_text(encoding="utf-8"))
    manifest["key"] = "0" * 40
    (entry / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def not_an_object(entry):
    (entry / "manifest.json").write_text("[1]", encoding="utf-8")


DAMAGES = {
    f"{kind.__name__} {name}": kind(name)
    for kind in (cut_off, remove)
    for name in ("src.npy", "tgt_offsets.npy", "tags.npy", "lines.npy", "vocab.json", "manifest.json")
} | {
    "alter src.npy": alter("src.npy"),
    "alter vocab.json": alter("vocab.json"),
    "key of another": with_key_of_another,
    "not an object": not_an_object,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_entry_is_made_anew(verbs, settings, root, damage):
    first = decoded(prepare(verbs, settings(), None, is_training=True))
    (key,) = entries(root)
    damage(root / "prepared" / key)
    assert read_entry(root / "prepared", key) is None
    assert decoded(prepare(verbs, settings(), None, is_training=True)) == first
    assert read_entry(root / "prepared", key) is not None
    assert entries(root) == [key]


def test_a_large_file_is_checked_by_size_and_header(verbs, settings, root, monkeypatch):
    first = decoded(prepare(verbs, settings(), None, is_training=True))
    (key,) = entries(root)
    monkeypatch.setattr(cache, "_CHECKED_WHOLE", 0)
    source = root / "prepared" / key / "src.npy"
    content = source.read_bytes()
    source.write_bytes(b"\0" * len(content))
    assert read_entry(root / "prepared", key) is not None  # as far as sizes go
    assert decoded(prepare(verbs, settings(), None, is_training=True)) == first
    assert source.read_bytes() == content


def test_an_entry_that_does_not_stay_is_reported(verbs, settings, root, monkeypatch):
    monkeypatch.setattr(module, "_open", lambda *_: None)
    with pytest.raises(StorageError, match=r"gone or damaged as soon as it is written; set data\.cache to another"):
        prepare(verbs, settings(), None, is_training=True)


def test_what_is_mapped_stays_when_the_entry_goes(verbs, settings, root):
    prepared = prepare(verbs, settings(), None, is_training=True)
    (key,) = entries(root)
    for path in (root / "prepared" / key).iterdir():
        path.unlink()
    assert decoded(prepared) == list(read_examples(verbs, settings()))


def test_a_cache_that_is_a_file(verbs, settings, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StorageError) as caught:
        prepare(verbs, settings(cache=str(tmp_path / "file")), None, is_training=True)
    assert str(caught.value) == (
        f"{tmp_path}/file/prepared: prepared data could not be written there (Not a directory); "
        "set data.cache to a directory that you may write to"
    )


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, r"\(No space left on device\); free some space, or set data.cache to a directory with more"),
        (errno.EROFS, r"\(Read-only file system\); set data.cache to a directory that you may write to"),
    ],
)
@pytest.mark.parametrize("where", ["directory", "numbers", "vocabulary", "manifest"])
def test_a_cache_that_cannot_be_written(verbs, settings, root, monkeypatch, number, message, where):
    def refuse(*arguments, **options):
        raise OSError(number, os.strerror(number))

    if where == "directory":
        monkeypatch.setattr(cache.tempfile, "mkdtemp", refuse)
    elif where == "numbers":
        monkeypatch.setattr(numbering._RawFile, "write", refuse)
    elif where == "vocabulary":
        monkeypatch.setattr(module, "write_json", refuse)
    else:
        monkeypatch.setattr(cache, "write_json", refuse)
    with pytest.raises(StorageError, match=f"cache/prepared: prepared data could not be written there {message}"):
        prepare(verbs, settings(), None, is_training=True)
    assert entries(root) == []


def test_a_cache_that_can_only_be_read_is_enough_for_what_it_has(verbs, settings, root, monkeypatch):
    prepare(verbs, settings(), None, is_training=True)

    def refuse(*arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    for name in ("mkdtemp", "mkstemp"):
        monkeypatch.setattr(cache.tempfile, name, refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert len(prepare(verbs, settings(), None, is_training=True)) == 4


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSNT_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_directory(DataConfig()) == tmp_path / ".cache" / "ssnt"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_directory(DataConfig()) == tmp_path / ".cache" / "ssnt"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory(DataConfig()) == tmp_path / "xdg" / "ssnt"
    monkeypatch.setenv("SSNT_CACHE", "~/ours")
    assert cache_directory(DataConfig()) == tmp_path / "ours"
    assert cache_directory(DataConfig(cache="~/mine")) == tmp_path / "mine"


def test_an_entry_is_readable_by_others(verbs, settings, root):
    old = os.umask(0o022)
    try:
        prepare(verbs, settings(), None, is_training=True)
    finally:
        os.umask(old)
    (key,) = entries(root)
    entry = root / "prepared" / key
    assert entry.stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in entry.iterdir()} == {0o644}


def test_of_two_writers_the_first_stays(tmp_path):
    with new_entry(tmp_path, "key") as (late, _), new_entry(tmp_path, "key") as (early, _):
        (early / "x").write_text("early", encoding="utf-8")
        (late / "x").write_text("late", encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
    assert (tmp_path / "key" / "x").read_text(encoding="utf-8") == "early"


def made_long_ago(path):
    for one in (*path.iterdir(), path):
        os.utime(one, (time.time() - 3600, time.time() - 3600))


def test_what_a_living_writer_has_begun_stays(tmp_path):
    with new_entry(tmp_path, "key") as (mine, _):
        (mine / "x").write_text("x", encoding="utf-8")
        made_long_ago(mine)
        with new_entry(tmp_path, "other") as _:
            assert (mine / "x").exists()
    assert read_entry(tmp_path, "key") is not None
    assert read_entry(tmp_path, "other") is not None


def test_what_was_begun_a_moment_ago_stays(tmp_path):
    (tmp_path / ".key.abc.partial").mkdir()
    with new_entry(tmp_path, "other") as _:
        pass
    assert (tmp_path / ".key.abc.partial").exists()


def test_without_locks_age_decides(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "fcntl", None)
    left = tmp_path / ".key.abc.partial"
    left.mkdir()
    made_long_ago(left)
    with new_entry(tmp_path, "one") as _:
        assert left.exists()
    monkeypatch.setattr(cache, "_ABANDONED_SECONDS", 1800)
    with new_entry(tmp_path, "two") as _:
        assert not left.exists()


PREPARE = """
import sys
from ssnt.config import DataConfig
from ssnt.data.prepared import prepare
print(len(prepare(sys.argv[1], DataConfig(cache=sys.argv[2]), None, is_training=True)), flush=True)
"""

HANG = """
import sys, time
from ssnt.data import prepared
fill = prepared._fill
def slow(*arguments):
    fill(*arguments)
    print("filled", flush=True)
    time.sleep(60)
prepared._fill = slow
"""


def test_processes_that_prepare_the_same_at_once(tmp_path, root):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{number}\t{number * 7}\n" for number in range(20_000)), encoding="utf-8")
    command = [sys.executable, "-c", PREPARE, str(path), str(root)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in started:
        output, errors = process.communicate(timeout=120)
        assert (process.returncode, output.strip()) == (0, "20000"), errors
    (key,) = entries(root)
    assert read_entry(root / "prepared", key) is not None


def test_what_a_killed_writer_left_is_cleaned(verbs, settings, root):
    command = [sys.executable, "-c", HANG + PREPARE, verbs, str(root)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().strip() == "filled"
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    (left,) = entries(root)
    assert left.endswith(".partial")
    assert (root / "prepared" / left / "src.npy").exists()
    made_long_ago(root / "prepared" / left)
    prepare(verbs, settings(), None, is_training=True)
    (key,) = entries(root)
    assert not key.endswith(".partial")


def test_preparing_needs_no_torch():
    script = "import sys, ssnt.data.prepared, ssnt.data.batching, ssnt.data.vocab; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_one_example_is_not_enough_to_train_on(tmp_path):
    path = tmp_path / "one.tsv"
    path.write_text("a\tb\n", encoding="utf-8")
    data = DataConfig(cache=str(tmp_path / "cache"))
    for _ in range(2):  # also when it is prepared already
        with pytest.raises(DataError, match=r"one\.tsv:1: there is only one example; a model cannot be trained on one"):
            prepare(str(path), data, None, is_training=True)


def test_one_example_that_the_filters_leave_is_not_enough_to_train_on(verbs, settings):
    data = settings(max_source_length=5, max_cells=15)
    vocabulary = prepare(verbs, settings(), None, is_training=True).vocabulary
    for given_vocabulary in (None, None, vocabulary):  # also when it is prepared already
        with pytest.raises(DataError) as caught:
            prepare(verbs, data, given_vocabulary, is_training=True)
        assert str(caught.value) == (
            f"{verbs}:4: there is only one example; a model cannot be trained on one (1 of 4 pairs are used; left out: "
            "2 by data.max_source_length (5), 1 by data.max_cells (15); raise these limits)"
        )
    assert len(prepare(verbs, data, vocabulary, is_training=False)) == 4
