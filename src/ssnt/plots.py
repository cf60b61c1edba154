"""Pictures of alignments, laid out as in the paper's figures: the source runs down, the target to the right.

Symbols are drawn in the order in which they are read and written, whichever way their script runs. Within a label,
right-to-left words and joined letters are laid out by matplotlib itself from 3.11 on; with an older one, such a label
gives a :class:`LabelWarning`. A label that the default font cannot draw takes an installed font that can; if there is
none, a :class:`LabelWarning` says which to install. A symbol that is a combining mark stands on a dotted circle, spaces
and control characters are made visible (``␣``, ``U+000A``), and nothing is read as mathematics.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from ssnt.errors import DataError, ShapeError
from ssnt.files import atomic_path
from ssnt.types import Alignment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

_CELL_INCHES = 0.36
_LEAST_CELL_INCHES = 0.15
_FULL_SIZE_COUNT = 20
_POINTS = 72
_FONT_POINTS = 10.0
_PATH_COLOUR = "crimson"
_SHADES = ("#f2f2f2", "#08519c")  # empty cells are grey, as in the paper, so that the grid shows

_DOTTED_CIRCLE = "\u25cc"
_JOINER = "\u200d"
# Few fonts know where to put these marks on a circle, and then they land beside it, outside the label. Put first, after
# something without width, they land on the circle that follows.
_MARKS_BEFORE_CIRCLE = {"ARABIC", "HEBREW"}
# Fonts without real glyphs for what they claim to have: boxes, blanks, and TeX's own encodings.
_UNFIT_FONTS = re.compile(
    r"\.?last ?resort|adobe blank|unicode bmp fallback|stix(size|nonuni)|cm[a-z]+\d+$", re.IGNORECASE
)
_EAST_ASIAN = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "FULLWIDTH", "HALFWIDTH", "IDEOGRAPHIC"}
_FIRST_LIBRAQM = "3.11"


class LabelWarning(UserWarning):
    """A label cannot be drawn as it should be; the message says what would help."""


def plot_alignment(
    emit: Tensor,
    source: Sequence[str],
    target: Sequence[str],
    path: Alignment | None = None,
    title: str | None = None,
    *,
    fonts: Sequence[str] = (),
) -> Figure:
    """Draws one pair's emission posteriors as shades, as in the paper's Figure 3, and a path over them.

    Args:
        emit: ``P(a_j = i | x, y)`` of one pair without padding, ``(J, I)``.
        source: The source symbols, ``I`` of them.
        target: The target symbols, ``J`` of them.
        path: An alignment to draw as a line, such as the best one.
        title: A heading.
        fonts: Font families to look in first for what the default font does not have.

    Returns:
        A matplotlib figure; save it with :func:`save_figure`, or ``figure.savefig("alignment.png")`` (or ``.svg``).

    Warns:
        LabelWarning: No installed font has a character, or this matplotlib cannot lay a label out.
    """
    if emit.shape != (len(target), len(source)):
        expected = f"(J, I) = ({len(target)}, {len(source)}), as target and source have"
        raise ShapeError(f"emit must have shape {expected}, got {tuple(emit.shape)}")
    if path is not None:
        _check_path(path, len(source), len(target))
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("posterior", _SHADES)
    layout = _Layout.of(source, target)
    figure, axes = _canvas(layout)
    # "none" keeps the cells sharp in SVG: the viewer scales them, not matplotlib
    axes.imshow(emit.detach().double().cpu().numpy().T, cmap=shades, vmin=0.0, vmax=1.0, interpolation="none")
    _label(figure, axes, source, target, title, layout, fonts)
    axes.set_xticks([j + 0.5 for j in range(len(target) - 1)], minor=True)
    axes.set_yticks([i + 0.5 for i in range(len(source) - 1)], minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5 * layout.scale)
    axes.tick_params(which="minor", length=0)
    if path is not None:
        axes.plot(*_corners(path), color=_PATH_COLOUR, linewidth=1.6 * layout.scale, solid_joinstyle="round")
        axes.plot(range(len(target)), path.positions, "o", color=_PATH_COLOUR, markersize=4 * layout.scale)
    return figure


def plot_path(
    path: Alignment,
    source: Sequence[str],
    target: Sequence[str],
    title: str | None = None,
    *,
    fonts: Sequence[str] = (),
) -> Figure:
    """Draws a path over the grid of all positions, as in the paper's Figure 1.

    At a point of the grid the column's symbol is next to be written and the row's was the last to be read. An arrow to
    the right writes the symbol of the column that it leaves, an arrow down reads on; the last symbol is written where
    the path ends.

    Args:
        path: The alignment.
        source: The source symbols.
        target: The target symbols.
        title: A heading.
        fonts: Font families to look in first for what the default font does not have.

    Returns:
        A matplotlib figure; save it with :func:`save_figure`.

    Warns:
        LabelWarning: No installed font has a character, or this matplotlib cannot lay a label out.
    """
    _check_path(path, len(source), len(target))
    layout = _Layout.of(source, target)
    figure, axes = _canvas(layout)
    axes.set_aspect("equal")
    axes.set_xlim(-0.5, len(target) - 0.5)
    axes.set_ylim(len(source) - 0.5, -0.5)
    points = [(j, i) for j in range(len(target)) for i in range(len(source))]
    axes.plot(*zip(*points, strict=True), "o", color="black", markersize=2.4 * layout.scale)
    _label(figure, axes, source, target, title, layout, fonts)
    style = {
        "arrowstyle": "-|>",
        "color": _PATH_COLOUR,
        "linewidth": 1.4 * layout.scale,
        "mutation_scale": 9 * layout.scale,
        "shrinkA": 0.0,
        "shrinkB": 0.0,
    }
    for begin, end in _moves(path):
        axes.annotate("", end, begin, arrowprops=style)
    return figure


def save_figure(figure: Figure, path: str | PathLike[str], *, dpi: int = 150) -> None:
    """Writes a picture as PNG or SVG, whichever the file name ends in; the same figure gives the same bytes.

    Letters in an SVG are outlines, so that it looks the same where the fonts are missing.

    Raises:
        DataError: The name ends in neither ``.png`` nor ``.svg``.
        StorageError: It cannot be written.
    """
    import matplotlib as mpl

    suffix = Path(path).suffix.lower()
    if suffix not in {".png", ".svg"}:
        raise DataError(f"path must end in .png or .svg, got {str(path)!r}")
    metadata = {"Date": None} if suffix == ".svg" else {}
    with mpl.rc_context({"svg.hashsalt": "ssnt", "svg.fonttype": "path"}), warnings.catch_warnings():
        # said already, and with a remedy, when the figure was made
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        with atomic_path(path) as partial:
            figure.savefig(partial, format=suffix[1:], dpi=dpi, metadata=metadata, bbox_inches="tight")


@dataclass(frozen=True)
class _Layout:
    """Sizes that keep every label readable: the more symbols, the smaller the cells, down to a limit.

    Attributes:
        width: Figure width in inches, labels included.
        height: Figure height in inches, labels included.
        scale: Size of the cells, 1 for a word of usual length.
        font_size: Size of the labels in points.
        slanted: Whether the labels of the target are too wide for their columns.
    """

    width: float
    height: float
    scale: float
    font_size: float
    slanted: bool

    @classmethod
    def of(cls, source: Sequence[str], target: Sequence[str]) -> _Layout:
        count = max(len(source), len(target))
        if not source or not target:
            raise ShapeError(f"source and target must have symbols, got {len(source)} and {len(target)}")
        cell = max(_LEAST_CELL_INCHES, _CELL_INCHES * min(1.0, (_FULL_SIZE_COUNT / count) ** 0.5))
        font_size = min(_FONT_POINTS, 0.6 * cell * _POINTS)
        em = font_size / _POINTS
        beside, above = (max(map(_ems, side)) * em for side in (source, target))
        slanted = above > 0.95 * cell
        return cls(
            width=0.8 + beside + cell * len(target) + (0.7 * above if slanted else 0.0),
            height=0.8 + (0.7 * above if slanted else em) + cell * len(source),
            scale=cell / _CELL_INCHES,
            font_size=font_size,
            slanted=slanted,
        )


def _ems(label: str) -> float:
    """A rough width, in units of the font size."""
    return sum(
        0.0 if unicodedata.combining(c) else 1.0 if unicodedata.east_asian_width(c) in "WF" else 0.6 for c in label
    )


def _canvas(layout: _Layout) -> tuple[Figure, Axes]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(layout.width, layout.height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _label(
    figure: Figure,
    axes: Axes,
    source: Sequence[str],
    target: Sequence[str],
    title: str | None,
    layout: _Layout,
    fonts: Sequence[str],
) -> None:
    """Puts the symbols along the axes, each in a font that has it."""
    axes.set_xticks(range(len(target)), [_drawn(symbol) for symbol in target])
    axes.set_yticks(range(len(source)), [_drawn(symbol) for symbol in source])
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("target")
    axes.set_ylabel("source")
    axes.tick_params(length=0, labelsize=layout.font_size)
    axes.spines[:].set_visible(False)
    if layout.slanted:
        for text in axes.get_xticklabels():
            text.set(rotation=45, rotation_mode="anchor", ha="left", va="center")
    texts = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    if title is not None:
        texts.append(figure.suptitle(title))
    for text in texts:
        text.set_parse_math(False)
        text.set_usetex(False)
    _choose_fonts(texts, fonts)


def _check_path(path: Alignment, src_len: int, tgt_len: int) -> None:
    if len(path.positions) != tgt_len:
        raise ShapeError(f"path must have a position for each of {tgt_len} target symbols, got {len(path.positions)}")
    before = 0
    for j, i in enumerate(path.positions):
        if not before <= i < src_len:
            raise ShapeError(f"path.positions[{j}] must be between {before} and {src_len - 1}, got {i}")
        before = i


def _corners(path: Alignment) -> tuple[list[float], list[float]]:
    """The walk of a path: shifts go down before the column is written, emissions go right."""
    across, down = [0.0], [0.0]
    for j, i in enumerate(path.positions):
        across += [j, j]
        down += [down[-1], i]
    return across, down


def _moves(path: Alignment) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """The single steps of a path, from point to point of the grid."""
    at = 0
    for j, i in enumerate(path.positions):
        if j > 0:
            yield (j - 1, at), (j, at)
        for row in range(at, i):
            yield (j, row), (j, row + 1)
        at = i


def _drawn(symbol: str) -> str:
    """What is drawn for a symbol: the symbol itself, unless it would be invisible or stick to its neighbours."""
    if symbol and all(unicodedata.category(c) == "Cf" for c in symbol):
        return " ".join(f"U+{ord(c):04X}" for c in symbol)
    visible = "".join(map(_picture, symbol))
    if not visible or not unicodedata.category(visible[0]).startswith("M"):
        return visible
    if _script(visible[0]) in _MARKS_BEFORE_CIRCLE and len(visible) == 1:
        return _JOINER + visible + _DOTTED_CIRCLE
    return _DOTTED_CIRCLE + visible


def _picture(character: str) -> str:
    """What stands for a character that has no shape; else the character."""
    if character == " ":
        return "\u2423"
    if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}:
        return f"U+{ord(character):04X}"
    return character


def _choose_fonts(texts: Sequence[Text], preferred: Sequence[str]) -> None:
    """Gives each text a font that has all its characters, or failing that several; warns if some are nowhere."""
    wanted = {text: _shapes(text.get_text()) for text in texts}
    _warn_of_layout(texts)
    everything = frozenset[str]().union(*wanted.values())
    glyphs: dict[str, frozenset[str]] = {}
    for family, has in _installed(everything, preferred):
        glyphs[family] = has
        if all(any(need <= known for known in glyphs.values()) for need in wanted.values()):
            break
    default = next(iter(glyphs))
    for text, need in wanted.items():
        families = _cover(need, glyphs)
        if families != [default]:
            text.set_fontfamily(families)
    missing = everything.difference(*glyphs.values())
    if missing:
        _warn_of_missing(missing)


def _shapes(label: str) -> frozenset[str]:
    """The characters that need a glyph: spaces, joiners and variation selectors do without."""
    return frozenset(
        c
        for c in label
        if unicodedata.category(c) not in {"Cf", "Zs", "Cc"} and "VARIATION SELECTOR" not in unicodedata.name(c, "")
    )


def _cover(need: frozenset[str], glyphs: dict[str, frozenset[str]]) -> list[str]:
    """One family that has all, else families that together have as much as there is; the default one if nothing."""
    for family, has in glyphs.items():
        if need <= has:
            return [family]
    chosen, left = [], need
    for family, has in glyphs.items():
        if left & has:
            chosen.append(family)
            left -= has
    return chosen or [next(iter(glyphs))]


def _installed(characters: frozenset[str], preferred: Sequence[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Families and what they have of the characters: the default one, the preferred ones, then all, best first."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    faces: dict[str, tuple[str, int]] = {}
    # normal weight last, so that it is the one that stays
    for entry in sorted(manager.ttflist, key=lambda entry: entry.weight in {400, "normal", "regular"}):
        if entry.style == "normal" and not _UNFIT_FONTS.match(entry.name):
            faces[entry.name] = (entry.fname, getattr(entry, "index", 0))  # before 3.11 no index is known
    path = manager.findfont(font_manager.FontProperties())
    default = font_manager.get_font(path).family_name
    faces[default] = (str(path), getattr(path, "face_index", 0))
    for family in dict.fromkeys([default, *preferred, *sorted(faces, key=lambda name: _rank(name, characters))]):
        if family in faces:
            yield family, _glyphs_of(*faces[family], characters)


def _glyphs_of(path: str, index: int, characters: Iterable[str]) -> frozenset[str]:
    """Those of the characters that a font has."""
    from matplotlib.ft2font import FT2Font

    # opened here, as the fonts that matplotlib's manager gives answer for their fallbacks too
    try:
        font = FT2Font(path, face_index=index) if index else FT2Font(path)
        return frozenset(c for c in characters if font.get_char_index(ord(c)))
    except (OSError, RuntimeError):
        return frozenset()  # a broken font file is like none


def _rank(family: str, characters: frozenset[str]) -> tuple[bool, bool, bool, str]:
    """Plain fonts first; of East Asian ones those for the language, as it has its own shapes of shared characters."""
    scripts = set(map(_script, characters))
    region = "JP" if scripts & {"HIRAGANA", "KATAKANA"} else "KR" if "HANGUL" in scripts else "SC"
    words = family.split()
    return "Sans" not in words, "Mono" in words, region not in words, family


def _script(character: str) -> str:
    """The first word of a character's name, which for letters and marks is that of their script."""
    return re.split("[ -]", unicodedata.name(character, "UNKNOWN"))[0]


def _warn_of_missing(missing: frozenset[str]) -> None:
    groups: dict[str, list[str]] = {}
    for character in sorted(missing):
        script = _script(character)
        if script in _EAST_ASIAN:
            font = "CJK, such as Noto Sans CJK"
        elif unicodedata.category(character)[0] in "LM":
            font = f"{script.title()}, such as Noto Sans {script.title()}"
        else:
            font = "symbols, such as Noto Sans Symbols or Noto Emoji"
        groups.setdefault(font, []).append(character)
    for font, characters in groups.items():
        shown = " ".join(f"{c} (U+{ord(c):04X})" for c in characters[:5])
        more = f" and {len(characters) - 5} more" if len(characters) > 5 else ""
        warnings.warn(
            f"no installed font can draw {shown}{more}: install a font for {font}", LabelWarning, stacklevel=5
        )


def _warn_of_layout(texts: Iterable[Text]) -> None:
    """Says so if labels need a text layout that this matplotlib does not have."""
    from matplotlib import __version__, ft2font

    if hasattr(ft2font, "__libraqm_version__"):
        return
    for text in texts:
        label = text.get_text()
        if sum(unicodedata.bidirectional(c) in {"R", "AL"} for c in label) > 1:
            warnings.warn(
                f"matplotlib {__version__} draws right-to-left words such as {label!r} in the wrong order: "
                f"install matplotlib>={_FIRST_LIBRAQM}",
                LabelWarning,
                stacklevel=5,
            )
            return
