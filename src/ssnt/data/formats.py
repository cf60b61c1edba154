"""How data files are laid out.

==================  ====================================================  =======================  ===================
format              a line                                                units                    tags split by
==================  ====================================================  =======================  ===================
``tsv``             columns split by tabs: source, target                 characters               ``;``
``jsonl``           a JSON object: ``source``, ``target``, ``tags``       characters               ``;``, or a list
``parallel``        one in each of PATH.src, PATH.tgt, PATH.tags          tokens                   ``;``
``sigmorphon2016``  lemma, tags, form                                     characters               ``,``
``sigmorphon2017``  lemma, form, tags                                     characters               ``;``
``sigmorphon2023``  lemma, tags, form                                     characters               ``;``
``morph-trans``     ``<s> a b </s>|<s> a b c </s>|k=v:k=v``               characters               ``:``
``g2p``             word, phones split by spaces                          characters, tokens       ``;``
``cmudict``         ``WORD  P1 P2``, ``WORD(1)  P1 P2``, ``;;; comment``  characters, tokens       no tags
==================  ====================================================  =======================  ===================

Where columns or keys can be chosen (``tsv``, ``jsonl``, ``sigmorphon*``, ``g2p``), ``data.source_column`` and its
sisters choose others. If one of them is a name, the first line of the file names the columns. A file of ``tsv`` or
``g2p`` has no tags unless ``data.tags_column`` says where; one of ``jsonl`` has them if its lines have the key
``tags``; ``PATH.tags`` need not exist.

For ``morph-trans`` the symbols between ``<s>`` and ``</s>`` are put together to a word; if the unit is ``tokens`` they
stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from ssnt.errors import ConfigError

if TYPE_CHECKING:
    from ssnt.config import DataConfig, Format, UnitName

Layout: TypeAlias = Literal["columns", "json", "parallel", "morph-trans", "cmudict"]
"""How a line is taken apart."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """What the settings say about a file's layout, with what they leave open filled in.

    Attributes:
        name: The format.
        layout: How a line is taken apart.
        source: Column of the source: a number from 1, a name, or a key; None where the layout has no columns.
        target: Column of the target.
        tags: Column of the tags; None: there is none, or the layout has no columns.
        tag_separator: What stands between two tags.
        source_unit: What a source symbol is.
        target_unit: What a target symbol is.
        has_header: Whether the first line names the columns.
        tags_optional: Whether a file without tags is fine.
        tags_if_two: Whether a line of two columns that needs no target is source and tags.
    """

    name: Format
    layout: Layout
    source: int | str | None
    target: int | str | None
    tags: int | str | None
    tag_separator: str
    source_unit: UnitName
    target_unit: UnitName
    has_header: bool = False
    tags_optional: bool = False
    tags_if_two: bool = False

    @property
    def may_have_tags(self) -> bool:
        """Whether a file of this format can have tags."""
        return self.tags is not None or self.layout in ("parallel", "morph-trans")


_CHARACTERS: tuple[UnitName, UnitName] = ("characters", "characters")
_PHONES: tuple[UnitName, UnitName] = ("characters", "tokens")

_FORMATS: dict[str, FileFormat] = {
    one.name: one
    for one in (
        FileFormat("tsv", "columns", 1, 2, None, ";", *_CHARACTERS),
        FileFormat("jsonl", "json", "source", "target", "tags", ";", *_CHARACTERS, tags_optional=True),
        FileFormat("parallel", "parallel", None, None, None, ";", "tokens", "tokens", tags_optional=True),
        FileFormat("sigmorphon2016", "columns", 1, 3, 2, ",", *_CHARACTERS),
        # its test files without answers leave the column of the form out
        FileFormat("sigmorphon2017", "columns", 1, 2, 3, ";", *_CHARACTERS, tags_if_two=True),
        FileFormat("sigmorphon2023", "columns", 1, 3, 2, ";", *_CHARACTERS),
        FileFormat("morph-trans", "morph-trans", None, None, None, ":", *_CHARACTERS),
        FileFormat("g2p", "columns", 1, 2, None, ";", *_PHONES),
        FileFormat("cmudict", "cmudict", None, None, None, ";", *_PHONES),
    )
}


def resolve_format(data: DataConfig) -> FileFormat:
    """The layout that the settings ask for.

    Raises:
        ConfigError: The format has no columns to choose, two columns are the same, or a JSON key is a number.
    """
    base = _FORMATS[data.format]
    chosen = {
        name: column
        for name in ("source_column", "target_column", "tags_column")
        if (column := getattr(data, name)) is not None
    }
    for name, column in chosen.items():
        _check_column(base, name, column)
    source, target = chosen.get("source_column", base.source), chosen.get("target_column", base.target)
    tags = chosen.get("tags_column", base.tags)
    check_distinct({"source_column": source, "target_column": target, "tags_column": tags}, ConfigError)
    return FileFormat(
        name=base.name,
        layout=base.layout,
        source=source,
        target=target,
        tags=tags,
        tag_separator=data.tag_separator or base.tag_separator,
        source_unit=data.source_unit or base.source_unit,
        target_unit=data.target_unit or base.target_unit,
        has_header=base.layout == "columns" and any(isinstance(column, str) for column in (source, target, tags)),
        tags_optional=base.tags_optional and "tags_column" not in chosen,
        tags_if_two=base.tags_if_two and not chosen,
    )


def check_distinct(columns: dict[str, int | str | None], error: type[Exception], where: str = "") -> None:
    """Refuses two parts of an example in one column.

    Args:
        columns: The columns by the settings that choose them.
        error: What to raise.
        where: What the message begins with.
    """
    used: dict[int | str, str] = {}
    for name, column in columns.items():
        if column is None:
            continue
        if column in used:
            raise error(
                f"{where}setting 'data.{name}': column {column!r} is that of data.{used[column]} too; "
                f"set both to different columns"
            )
        used[column] = name


def _check_column(base: FileFormat, name: str, column: int | str) -> None:
    if base.layout not in ("columns", "json"):
        raise ConfigError(
            f"setting 'data.{name}': the format {base.name!r} has no columns to choose, got {column!r}; leave it out"
        )
    if base.layout == "json" and not isinstance(column, str):
        raise ConfigError(f"setting 'data.{name}': expected the name of a key for jsonl, got {column!r}")
