"""Alignments as text: Pharaoh, JSON Lines, and the joint sequences of grapheme-to-phoneme aligners.

All take the symbols of a pair without their end symbols, and leave these out unless ``include_end`` is set. What an end
symbol was aligned to is then aligned to nothing; no other symbol is ever left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ssnt.decode.align import PairAlignment, Segment
from ssnt.errors import DataError, ShapeError

END = "</s>"
"""How the end symbol is written where it is asked for."""

_EMPTY = "_"
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", **{c: c for c in "|}_ \\"}}
_ESCAPED = {character: f"\\{letter}" for letter, character in _ESCAPES.items()}
_SPECIAL = re.compile(r"\\(.?)|_", re.DOTALL)
# Some tools end a line at these, and lone surrogates cannot be written as UTF-8.
_NOT_IN_A_LINE = re.compile("[\x7f\x85\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True)
class Chunk:
    """Source symbols and the target symbols that they wrote; either may be none.

    Attributes:
        source: Source symbols.
        target: Target symbols.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]


def pharaoh(alignment: PairAlignment, *, include_end: bool = False) -> str:
    """The path as ``i-j`` links, source-target, both counted from 0: ``"0-0 1-1 1-2"``.

    A target symbol that was written at the source's end symbol has no link, unless end symbols are included.
    """
    src_len, tgt_len = _lengths(alignment, include_end)
    positions = alignment.path.positions[:tgt_len]
    return " ".join(f"{i}-{j}" for j, i in enumerate(positions) if i < src_len)


def to_record(
    alignment: PairAlignment, source: Sequence[str], target: Sequence[str], *, include_end: bool = False
) -> dict[str, Any]:
    """An alignment as a value for JSON; :func:`to_json_line` makes a line of it.

    Returns:
        ``source`` and ``target``, the symbols; ``links``, for each target symbol its ``source`` position (None if it
        was written at an end symbol that is left out), its ``target`` position and its ``confidence``; ``segments``,
        each with half-open spans ``source`` and ``target``; ``log_prob``, the log likelihood of the pair, and
        ``path_log_prob``, that of pair and path together (both with the end symbols).
    """
    source, target = _symbols(alignment, source, target, include_end)
    links = [
        {"source": i if i < len(source) else None, "target": j, "confidence": confidence}
        for j, (i, confidence) in enumerate(zip(alignment.path.positions, alignment.confidence, strict=True))
        if j < len(target)
    ]
    segments = [
        {"source": [s.src_start, s.src_end], "target": [s.tgt_start, s.tgt_end]}
        for s in shown_segments(alignment, include_end=include_end)
    ]
    return {
        "source": source,
        "target": target,
        "links": links,
        "segments": segments,
        "log_prob": alignment.log_prob,
        "path_log_prob": alignment.path.log_prob,
    }


def to_json_line(record: dict[str, Any]) -> str:
    """A record as one line of JSON, without the line's end; any symbols come back as they were."""
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    return _NOT_IN_A_LINE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def joint_sequence(
    alignment: PairAlignment, source: Sequence[str], target: Sequence[str], *, include_end: bool = False
) -> str:
    """The segments as a joint sequence, such as ``a}AH n|g}NG c}_``; see :func:`format_joint`.

    Deleted source symbols come one by one, as these aligners have them.
    """
    source, target = _symbols(alignment, source, target, include_end)
    chunks: list[Chunk] = []
    for s in shown_segments(alignment, include_end=include_end):
        read, written = tuple(source[s.src_start : s.src_end]), tuple(target[s.tgt_start : s.tgt_end])
        chunks += [Chunk(read, written)] if written else [Chunk((symbol,), ()) for symbol in read]
    return format_joint(chunks)


def format_joint(chunks: Iterable[Chunk]) -> str:
    r"""Writes chunks in the form of grapheme-to-phoneme aligners: ``a}AH n|g}NG c}_``.

    Chunks are separated by a space; a chunk is its source symbols joined by ``|``, then ``}``, then its target symbols
    joined by ``|``; ``_`` stands for no symbols. In a symbol, ``|``, ``}``, ``_``, space and backslash have a backslash
    before them, and tab, line feed and carriage return are ``\t``, ``\n`` and ``\r``.
    """
    return " ".join(f"{_format_side(chunk.source)}}}{_format_side(chunk.target)}" for chunk in chunks)


def parse_joint(line: str) -> list[Chunk]:
    """Reads what :func:`format_joint` wrote.

    Raises:
        DataError: The line is not in this form; the message names the chunk, counted from 1.
    """
    if not line:
        return []
    chunks: list[Chunk] = []
    for number, text in enumerate(_split(line, " "), start=1):
        sides = _split(text, "}")
        if len(sides) != 2:
            raise DataError(f"chunk {number}: expected one '}}' between source and target, got {text!r}")
        source, target = (_parse_side(side, number) for side in sides)
        chunks.append(Chunk(source, target))
    return chunks


def shown_segments(alignment: PairAlignment, *, include_end: bool = False) -> list[Segment]:
    """The segments as the formats show them: without the end symbols, unless these are included.

    Without them, a target span that was written at the source's end symbol has an empty source, and a source span that
    wrote nothing but the target's end symbol is a deletion.
    """
    src_len, tgt_len = _lengths(alignment, include_end)
    shown: list[Segment] = []
    for s in alignment.segments:
        cut = Segment(
            min(s.src_start, src_len), min(s.src_end, src_len), min(s.tgt_start, tgt_len), min(s.tgt_end, tgt_len)
        )
        if cut.src_start == cut.src_end and cut.is_deletion:
            continue
        if cut.is_deletion and shown and shown[-1].is_deletion:
            last = shown.pop()
            cut = Segment(last.src_start, cut.src_end, cut.tgt_start, cut.tgt_end)
        shown.append(cut)
    return shown


def _lengths(alignment: PairAlignment, include_end: bool) -> tuple[int, int]:
    left_out = 0 if include_end else 1
    return alignment.src_len - left_out, alignment.tgt_len - left_out


def _symbols(
    alignment: PairAlignment, source: Sequence[str], target: Sequence[str], include_end: bool
) -> tuple[list[str], list[str]]:
    """The symbols to show, their number checked."""
    for name, symbols, expected in (
        ("source", source, alignment.src_len - 1),
        ("target", target, alignment.tgt_len - 1),
    ):
        if len(symbols) != expected:
            raise ShapeError(
                f"{name} must have the {expected} symbols of the alignment, without the end symbol, got {len(symbols)}"
            )
    ending = [END] if include_end else []
    return [*source, *ending], [*target, *ending]


def _format_side(symbols: Sequence[str]) -> str:
    if not symbols:
        return _EMPTY
    return "|".join("".join(_ESCAPED.get(c, c) for c in symbol) for symbol in symbols)


def _split(text: str, separator: str) -> list[str]:
    """Splits at the separators that have no backslash before them."""
    parts: list[str] = []
    start, escaped = 0, False
    for place, character in enumerate(text):
        if character == separator and not escaped:
            parts.append(text[start:place])
            start = place + 1
        escaped = character == "\\" and not escaped
    return [*parts, text[start:]]


def _parse_side(side: str, number: int) -> tuple[str, ...]:
    def unescaped(match: re.Match[str]) -> str:
        if match[0] == _EMPTY:
            raise DataError(f"chunk {number}: expected '_' alone or with a backslash before it, got {side!r}")
        if match[1] not in _ESCAPES:
            raise DataError(
                f"chunk {number}: expected one of {' '.join(_ESCAPES)} or a space after a backslash, got {side!r}"
            )
        return _ESCAPES[match[1]]

    if side == _EMPTY:
        return ()
    return tuple(_SPECIAL.sub(unescaped, symbol) for symbol in _split(side, "|"))
