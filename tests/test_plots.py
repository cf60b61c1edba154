"""Alignment pictures."""

import itertools
import re
import warnings

import pytest
import torch
from matplotlib import font_manager, ft2font

from ssnt import plots
from ssnt.errors import DataError, ShapeError
from ssnt.plots import LabelWarning, plot_alignment, plot_path, save_figure
from ssnt.types import Alignment

END = "</s>"
CJK = "北京"


@pytest.fixture
def only_bundled_fonts(monkeypatch):
    """The fonts that come with matplotlib, whatever the machine has."""
    bundled = [entry for entry in font_manager.fontManager.ttflist if "mpl-data" in entry.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", bundled)
    return bundled


def spread(source, target):
    """Posteriors and a path for a pair, along the diagonal."""
    positions = tuple(j * (len(source) - 1) // max(1, len(target) - 1) for j in range(len(target)))
    emit = torch.zeros(len(target), len(source))
    emit[range(len(target)), positions] = 1.0
    return emit, Alignment(positions, -1.0)


def drawn_labels(source, target=("x", END)):
    """The texts of the source axis of a picture."""
    emit, _ = spread(source, target)
    return plot_alignment(emit, source, target).axes[0].get_yticklabels()


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture_shows_symbols_and_path(tmp_path, suffix):
    emit = torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]])
    figure = plot_alignment(emit, ["a", "b", END], ["x", END], Alignment((0, 2), -1.0), title="a pair")
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", END]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x", END]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("target", "source")
    shown = axes.images[0].get_array()
    assert shown.shape == (3, 2)  # the source runs down
    assert shown[2, 1] == pytest.approx(0.8)
    line, dots = axes.lines
    assert list(zip(*line.get_data(), strict=True)) == [(0, 0), (0, 0), (0, 0), (1, 0), (1, 2)]
    assert list(dots.get_ydata()) == [0, 2]
    figure.savefig(tmp_path / f"picture.{suffix}")
    assert (tmp_path / f"picture.{suffix}").stat().st_size > 1000


def test_sizes_must_fit():
    with pytest.raises(ShapeError, match=r"emit must have shape \(J, I\) = \(1, 2\), .* got \(2, 1\)"):
        plot_alignment(torch.ones(2, 1), ["a", "b"], ["x"])
    with pytest.raises(ShapeError, match="path must have a position for each of 1 target symbols, got 2"):
        plot_alignment(torch.ones(1, 2), ["a", "b"], ["x"], Alignment((0, 1), -1.0))
    with pytest.raises(ShapeError, match=r"path.positions\[1\] must be between 1 and 1, got 0"):
        plot_path(Alignment((1, 0), -1.0), ["a", "b"], ["x", "y"])
    with pytest.raises(ShapeError, match=r"path.positions\[0\] must be between 0 and 1, got 2"):
        plot_path(Alignment((2,), -1.0), ["a", "b"], ["x"])
    with pytest.raises(ShapeError, match="source and target must have symbols, got 0 and 1"):
        plot_alignment(torch.ones(1, 0), [], ["x"])


def test_a_path_goes_from_point_to_point():
    axes = plot_path(Alignment((0, 0, 2), -1.0), ["a", "b", END], ["x", "y", END]).axes[0]
    arrows = [(arrow.xyann, arrow.xy) for arrow in axes.texts]
    # written at a: x, then y; then read b and the end, at which the end is written
    assert arrows == [((0, 0), (1, 0)), ((1, 0), (2, 0)), ((2, 0), (2, 1)), ((2, 1), (2, 2))]
    (dots,) = axes.lines
    assert len(dots.get_xdata()) == 9
    assert axes.get_ylim() == (2.5, -0.5)  # the source runs down
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("target", "source")


@pytest.mark.parametrize("suffix", ["png", "svg"])
@pytest.mark.parametrize("kind", ["shades", "path"])
def test_the_same_figure_gives_the_same_bytes(tmp_path, suffix, kind):
    source, target = [*"zocken", END], [*"gezockt", END]
    emit, path = spread(source, target)
    for name in ("one", "two"):
        figure = plot_path(path, source, target) if kind == "path" else plot_alignment(emit, source, target, path)
        save_figure(figure, tmp_path / f"{name}.{suffix}")
    one = (tmp_path / f"one.{suffix}").read_bytes()
    assert one.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")
    assert one == (tmp_path / f"two.{suffix}").read_bytes()
    assert re.search(rb"<dc:date>", one) is None


def test_only_two_kinds_of_file(tmp_path):
    figure = plot_path(Alignment((0,), -1.0), ["a"], ["x"])
    with pytest.raises(DataError, match=r"path must end in .png or .svg, got '.*a.pdf'"):
        save_figure(figure, tmp_path / "a.pdf")


@pytest.mark.parametrize("draw", ["shades", "path"])
def test_sixty_words_are_readable(draw):
    source = [f"word{i}" if i % 7 else f"internationalisation{i}" for i in range(59)] + [END]
    target = ["managing", "directors", "restructured", "newspapers", END]
    emit, path = spread(source, target)
    figure = plot_path(path, source, target) if draw == "path" else plot_alignment(emit, source, target, path)
    figure.canvas.draw()
    axes = figure.axes[0]
    rows = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert min(label.get_fontsize() for label in axes.get_yticklabels()) >= 6
    for above, below in itertools.pairwise(rows):
        assert above.y0 >= below.y1 - 1  # of pixels: one row does not run into the next
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {45}
    width, height = figure.canvas.get_width_height()
    for label in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        box = label.get_window_extent()
        assert box.x0 >= -1
        assert box.y0 >= -1
        assert box.x1 <= width + 1
        assert box.y1 <= height + 1


def test_short_labels_stand_upright():
    source, target = [*"zocken", END], [*"gezockt", END]
    axes = plot_alignment(spread(source, target)[0], source, target).axes[0]
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {0}


@pytest.mark.parametrize(
    ("symbol", "shown"),
    [
        ("a", "a"),
        ("</s>", "</s>"),
        ("$x$", "$x$"),
        ("é", "é"),
        ("e\u0301", "e\u0301"),
        ("\u0301", "\u25cc\u0301"),  # a mark needs something to stand on
        ("\u0301\u0330", "\u25cc\u0301\u0330"),
        ("\u064e", "\u200d\u064e\u25cc"),
        ("\u05b8", "\u200d\u05b8\u25cc"),
        (" ", "\u2423"),
        ("a b", "a\u2423b"),
        ("\n", "U+000A"),
        ("\u200d", "U+200D"),
        ("\ud800", "U+D800"),
        ("", ""),
        ("שלום", "שלום"),
    ],
)
def test_what_is_drawn_for_a_symbol(symbol, shown):
    first, _ = drawn_labels([symbol, END])
    assert first.get_text() == shown
    assert not first.get_parse_math()
    first.figure.canvas.draw()


def test_the_default_font_is_left_alone():
    default = font_manager.FontProperties().get_family()
    # DejaVu, which comes with matplotlib, has Greek, Cyrillic, Hebrew and Arabic letters
    labels = drawn_labels(["ä", "ж", "λ", "ש", "م", "\u0301", END])
    assert [label.get_fontfamily() for label in labels] == [default] * len(labels)


@pytest.mark.usefixtures("only_bundled_fonts")
def test_a_missing_font_is_named(tmp_path):
    message = r"no installed font can draw 京 \(U\+4EAC\) 北 \(U\+5317\): install a font for CJK, such as Noto Sans CJK"
    with pytest.warns(LabelWarning, match=message) as caught:
        labels = drawn_labels([*CJK, END])
    assert caught[0].filename == __file__
    assert [label.get_text() for label in labels] == [*CJK, END]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough: matplotlib would say it again for each glyph
        save_figure(labels[0].figure, tmp_path / "picture.png")


@pytest.mark.usefixtures("only_bundled_fonts")
@pytest.mark.parametrize(
    ("symbol", "font"),
    [
        ("ー", "CJK, such as Noto Sans CJK"),
        ("한", "CJK"),
        ("क", "Devanagari, such as Noto Sans Devanagari"),
        ("\u093f", "Devanagari"),
        ("\U0001fae0", "symbols, such as Noto Sans Symbols or Noto Emoji"),
    ],
)
def test_what_font_to_install(symbol, font):
    with pytest.warns(LabelWarning, match=f"install a font for {font}"):
        drawn_labels([symbol, END])


@pytest.mark.usefixtures("only_bundled_fonts")
def test_many_missing_characters_are_counted():
    with pytest.warns(LabelWarning, match="and 3 more: install a font for CJK"):
        plot_path(Alignment((0,), -1.0), [*"北京大学中文书店"], ["x"], title="a pair")


def with_fonts(monkeypatch, families):
    """Pretends that only these families, with these characters, are installed beside the default one."""
    default = next(entry for entry in font_manager.fontManager.ttflist if entry.name == "DejaVu Sans")
    entries = [font_manager.FontEntry(fname=f"{name}.ttf", name=name, weight=400) for name in families]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [*entries, default])

    def glyphs_of(path, index, characters):
        has = families.get(path.removesuffix(".ttf"), "abcdefghijklmnopqrstuvwxyz</>\u25cc")
        return frozenset(characters) & frozenset(has)

    monkeypatch.setattr(plots, "_glyphs_of", glyphs_of)


def families_of(labels):
    return [label.get_fontfamily() for label in labels]


def test_a_label_takes_one_font_that_has_all_of_it(monkeypatch):
    with_fonts(monkeypatch, {"Half Sans": "北", "Whole Serif": CJK, "Symbols": "€"})
    labels = drawn_labels(["北", CJK, "€", "a", END])
    default = font_manager.FontProperties().get_family()
    assert families_of(labels) == [["Half Sans"], ["Whole Serif"], ["Symbols"], default, default]


def test_a_label_takes_several_fonts_if_it_must(monkeypatch):
    with_fonts(monkeypatch, {"One Sans": "北", "Two Sans": "京"})
    assert families_of(drawn_labels([CJK + "a", END]))[0] == ["DejaVu Sans", "One Sans", "Two Sans"]


@pytest.mark.parametrize(
    ("symbols", "region"), [("北京", "SC"), ("東京タワー", "JP"), ("東京とう", "JP"), ("서울北", "KR")]
)
def test_the_shapes_of_the_language_are_taken(monkeypatch, symbols, region):
    with_fonts(monkeypatch, {f"Noto Sans CJK {r}": "北京東タワーとう서울" for r in ("HK", "JP", "KR", "SC", "TC")})
    assert families_of(drawn_labels([*symbols, END]))[0] == [f"Noto Sans CJK {region}"]


def test_preferred_fonts_come_first(monkeypatch):
    with_fonts(monkeypatch, {"A Sans": CJK, "Mine": CJK})
    emit, _ = spread([*CJK], ["x"])
    figure = plot_alignment(emit, [*CJK], ["x"], title=CJK, fonts=["Not there", "Mine"])
    assert families_of(figure.axes[0].get_yticklabels()) == [["Mine"], ["Mine"]]
    assert figure.get_suptitle() == CJK


def test_a_font_of_boxes_is_no_font():
    names = ["Last Resort High-Efficiency", ".LastResort", "LastResort", "STIXSizeOneSym", "STIXNonUnicode", "cmr10"]
    assert all(plots._UNFIT_FONTS.match(name) for name in names)
    assert not any(plots._UNFIT_FONTS.match(name) for name in ["DejaVu Sans", "CMU Serif", "Noto Sans CJK SC"])


def test_a_broken_font_is_no_font(tmp_path):
    broken = tmp_path / "broken.ttf"
    broken.write_bytes(b"no font")
    assert plots._glyphs_of(str(broken), 0, "a") == frozenset()
    assert plots._glyphs_of(str(tmp_path / "absent.ttf"), 0, "a") == frozenset()


def test_right_to_left_words_need_a_layout_engine(monkeypatch):
    monkeypatch.delattr(ft2font, "__libraqm_version__", raising=False)
    with pytest.warns(LabelWarning, match=r"draws right-to-left words such as 'שלום' in the wrong order: install"):
        drawn_labels(["שלום", END])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn_labels([*"שלום", END])  # single letters need none
