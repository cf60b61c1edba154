"""The embedded sample: its files, its splits, and that its German is right."""

import re
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from ssnt.data.sample import SPLITS, Split, sample_path
from ssnt.data.sample.build import INSEPARABLE, SEPARABLE, Stem, main, read_stems, split_text, weak_ending
from ssnt.errors import ConfigError, DataError

PREFIXES = sorted(SEPARABLE | INSEPARABLE)
HEADER = "split\tkind\tinfinitive\tparticiple\tprefixes\n"


def pairs(split: Split) -> list[tuple[str, str]]:
    lines = sample_path(split).read_text(encoding="utf-8").splitlines()
    return [cast("tuple[str, str]", tuple(line.split("\t"))) for line in lines]


@pytest.fixture(scope="module")
def stems() -> list[Stem]:
    return read_stems()


@pytest.fixture(scope="module")
def verbs() -> dict[str, str]:
    return {infinitive: participle for split in SPLITS for infinitive, participle in pairs(split)}


def is_made_of_prefixes(text: str) -> bool:
    return not text or any(text.startswith(p) and is_made_of_prefixes(text[len(p) :]) for p in PREFIXES)


def rhyme(infinitive: str) -> str:
    root = infinitive[:-3] if infinitive.endswith(("eln", "ern")) else infinitive[:-2]
    return re.findall(r"[aeiouyäöü]*[^aeiouyäöü]*$", root)[0]


def test_splits_have_their_sizes() -> None:
    assert {split: len(pairs(split)) for split in SPLITS} == {"train": 2913, "dev": 201, "test": 198}


def test_unknown_split_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="expected one of train, dev, test, got 'valid'"):
        sample_path(cast("Any", "valid"))


@pytest.mark.parametrize("split", SPLITS)
def test_files_are_two_sorted_columns_in_nfc(split: Split) -> None:
    content = sample_path(split).read_bytes()
    text = content.decode("utf-8")
    assert b"\r" not in content
    assert text.endswith("\n")
    assert unicodedata.is_normalized("NFC", text)
    rows = [line.split("\t") for line in text.splitlines()]
    assert all(len(row) == 2 and all(cell.isalpha() and cell.islower() for cell in row) for row in rows)
    infinitives = [infinitive for infinitive, _ in rows]
    assert infinitives == sorted(set(infinitives))


@pytest.mark.parametrize("split", SPLITS)
def test_files_are_what_the_stems_give(split: Split, stems: list[Stem]) -> None:
    assert sample_path(split).read_text(encoding="utf-8") == split_text(stems, split)


def test_main_writes_every_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ssnt.data.sample.build.sample_path", lambda split: tmp_path / f"{split}.tsv")
    main()
    for split in SPLITS:
        assert (tmp_path / f"{split}.tsv").read_bytes() == sample_path(split).read_bytes()
    assert "198 verbs" in capsys.readouterr().out


def test_no_verb_is_in_two_splits(verbs: dict[str, str]) -> None:
    assert sum(len(pairs(split)) for split in SPLITS) == len(verbs)


def test_no_stem_is_in_two_splits(stems: list[Stem]) -> None:
    splits: dict[str, set[str]] = {}
    for stem in stems:  # a stem can have two lines: raten (geraten), and one that is weak
        splits.setdefault(stem.infinitive, set()).add(stem.split)
    assert [infinitive for infinitive, found in splits.items() if len(found) > 1] == []


def test_no_verb_is_spelt_like_one_on_a_stem_of_another_split(stems: list[Stem]) -> None:
    home = {stem.infinitive: stem.split for stem in stems}
    for split in SPLITS:
        for infinitive, _ in pairs(split):
            for k in range(len(infinitive)):
                if infinitive[k:] in home and is_made_of_prefixes(infinitive[:k]):
                    assert home[infinitive[k:]] == split, infinitive


def test_held_out_stems_are_of_the_kinds_that_the_readme_says(stems: list[Stem]) -> None:
    commonness = Counter(prefix for stem in stems for prefix in stem.prefixes)
    for stem in stems:
        if stem.split == "train":
            continue
        assert stem.kind != "strong"
        assert stem.participle is None
        assert len(stem.verbs()) <= 4
        assert (stem.kind == "plain") == stem.infinitive.endswith("ieren")
        assert all(commonness[prefix] >= 40 for prefix in stem.prefixes)
        if stem.kind == "weak" and stem.is_verb:
            assert not stem.infinitive.startswith(tuple(PREFIXES))


def test_held_out_weak_stems_rhyme_with_weak_stems_only(stems: list[Stem]) -> None:
    weak = Counter(rhyme(stem.infinitive) for stem in stems if stem.kind == "weak")
    strong = {rhyme(stem.infinitive) for stem in stems if stem.kind == "strong"}
    for stem in stems:
        if stem.split != "train" and stem.kind == "weak":
            assert weak[rhyme(stem.infinitive)] > 3, stem
            assert rhyme(stem.infinitive) not in strong, stem


def test_every_letter_of_the_held_out_verbs_is_in_training() -> None:
    known = {letter for pair in pairs("train") for word in pair for letter in word}
    assert {letter for s in SPLITS for pair in pairs(s) for word in pair for letter in word} == known


def test_the_papers_verb_is_held_out_for_testing() -> None:
    assert ("zocken", "gezockt") in pairs("test")


@pytest.mark.parametrize("kind", ["weak", "plain", "strong"])
def test_training_has_enough_of_each_kind(kind: str, stems: list[Stem]) -> None:
    assert sum(len(stem.verbs()) for stem in stems if stem.kind == kind and stem.split == "train") > 150


@pytest.mark.parametrize(
    ("infinitive", "participle"),
    [
        # weak
        ("spielen", "gespielt"),
        ("sammeln", "gesammelt"),
        ("wandern", "gewandert"),
        ("grüßen", "gegrüßt"),
        ("küssen", "geküsst"),
        ("knien", "gekniet"),
        ("säen", "gesät"),
        ("frühstücken", "gefrühstückt"),
        # -et
        ("arbeiten", "gearbeitet"),
        ("baden", "gebadet"),
        ("öffnen", "geöffnet"),
        ("atmen", "geatmet"),
        ("rechnen", "gerechnet"),
        ("widmen", "gewidmet"),
        ("entgegnen", "entgegnet"),
        # and not
        ("lernen", "gelernt"),
        ("filmen", "gefilmt"),
        ("wohnen", "gewohnt"),
        ("trennen", "getrennt"),
        ("lärmen", "gelärmt"),
        # no ge
        ("studieren", "studiert"),
        ("prophezeien", "prophezeit"),
        ("posaunen", "posaunt"),
        ("schmarotzen", "schmarotzt"),
        ("miauen", "miaut"),
        ("trompeten", "trompetet"),
        # but
        ("schmieren", "geschmiert"),
        ("zieren", "geziert"),
        # prefixes
        ("aufmachen", "aufgemacht"),
        ("ausprobieren", "ausprobiert"),
        ("besuchen", "besucht"),
        ("gehören", "gehört"),
        ("erlauben", "erlaubt"),
        ("verkaufen", "verkauft"),
        ("zerstören", "zerstört"),
        ("entdecken", "entdeckt"),
        ("empören", "empört"),
        ("missachten", "missachtet"),
        ("vorbereiten", "vorbereitet"),
        ("beantragen", "beantragt"),
        ("verabreden", "verabredet"),
        ("anerkennen", "anerkannt"),
        # what only looks like one
        ("beten", "gebetet"),
        ("betteln", "gebettelt"),
        ("beben", "gebebt"),
        ("bellen", "gebellt"),
        ("erben", "geerbt"),
        ("ernten", "geerntet"),
        ("entern", "geentert"),
        ("zerren", "gezerrt"),
        ("angeln", "geangelt"),
        ("ankern", "geankert"),
        # strong, mixed, irregular
        ("singen", "gesungen"),
        ("ansingen", "angesungen"),
        ("besingen", "besungen"),
        ("bringen", "gebracht"),
        ("geben", "gegeben"),
        ("gehen", "gegangen"),
        ("essen", "gegessen"),
        ("vergessen", "vergessen"),
        ("werden", "geworden"),
        ("sein", "gewesen"),
        ("gelingen", "gelungen"),
        ("empfehlen", "empfohlen"),
        ("gefallen", "gefallen"),
        ("missverstehen", "missverstanden"),
    ],
)
def test_participles_are_right(infinitive: str, participle: str, verbs: dict[str, str]) -> None:
    assert verbs[infinitive] == participle


@pytest.mark.parametrize(
    ("infinitive", "ending"),
    [
        ("machen", "macht"),
        ("retten", "rettet"),
        ("zeichnen", "zeichnet"),
        ("ordnen", "ordnet"),
        ("ahnen", "ahnt"),
        ("brummen", "brummt"),
        ("qualmen", "qualmt"),
        ("zürnen", "zürnt"),
        ("ehren", "ehrt"),
        ("feiern", "feiert"),
        ("eilen", "eilt"),
        ("segeln", "segelt"),
    ],
)
def test_ending_of_weak_verbs(infinitive: str, ending: str) -> None:
    assert weak_ending(infinitive) == ending


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train\tweak\tmachen\t-", "stems.tsv:2: expected 5 columns, got 4"),
        ("valid\tweak\tmachen\t-\tab", "got 'valid' and 'weak'"),
        ("train\tregular\tmachen\t-\tab", "got 'train' and 'regular'"),
        ("train\tstrong\tsingen\t-\tab", "expected a participle with ge-"),
        ("train\tstrong\tsingen\tsungen\tab", "expected a participle with ge-"),
        ("train\tweak\tmachen\t-\tab vor+xx", "unknown prefix 'xx'"),
    ],
)
def test_a_wrong_line_of_stems_is_named(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "stems.tsv"
    path.write_text(HEADER + line + "\n", encoding="utf-8")
    with pytest.raises(DataError) as error:
        read_stems(path)
    assert message in str(error.value)


def test_a_verb_from_two_stems_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "stems.tsv"
    rows = "train\tweak\t(fehlen)\t-\tbe\ntrain\tstrong\t(fehlen)\tgefohlen\tbe\n"
    path.write_text(HEADER + rows, encoding="utf-8")
    with pytest.raises(DataError, match="befehlen: expected each verb once"):
        split_text(read_stems(path), "train")
