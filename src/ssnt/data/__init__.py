"""Files to examples, vocabularies and batches.

==============  =====================================================================================
module          what
==============  =====================================================================================
``lines``       the lines of a file: UTF-8, NFC, gzip, standard input; ``Problem``
``formats``     how each format is laid out
``parsers``     one line to an example, for each layout
``readers``     a file to examples, with a problem in the place of a line that cannot be used
``rows``        lines of fields with tabs between them, to be written
``text``        what is done to text before it is split
``units``       what a symbol is: characters, graphemes, tokens, byte-pair units
``filters``     which training pairs are left out because of their lengths
``references``  examples that ask the same, made into one with several right answers
``vocab``       the symbols and tags that a model knows, and their JSON file
``prepared``    a file as numbers in flat arrays (``numbering``, ``ragged``), kept on disk (``cache``)
``batching``    which examples go into a batch together, and the batch
``sample``      German verbs and their participles, to try things with
``stats``       what a file holds, counted
``check``       everything that is wrong or odd about a file (``oddities``, ``repeats``: its parts)
==============  =====================================================================================

Every name is imported when it is first asked for, and none of these modules brings torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssnt.lazy import lazy_names

if TYPE_CHECKING:
    from ssnt.data.batching import collate, plan_batches, plan_in_length_order, shard_of
    from ssnt.data.check import CheckReport, check_file
    from ssnt.data.filters import FilterReport, Filters
    from ssnt.data.formats import FileFormat, resolve_format
    from ssnt.data.lines import Problem, numbered_lines
    from ssnt.data.prepared import Prepared, prepare, prepare_examples
    from ssnt.data.readers import files_of, iterate, read_examples
    from ssnt.data.references import PooledExample, pool_references
    from ssnt.data.stats import Stats, file_stats
    from ssnt.data.text import normalise
    from ssnt.data.units import (
        Bpe,
        Characters,
        Graphemes,
        Tokens,
        Unit,
        make_unit,
        train_bpe,
        unit_from_state,
        units_for,
    )
    from ssnt.data.vocab import SymbolTable, TagTable, Vocabulary

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".batching": ("collate", "plan_batches", "plan_in_length_order", "shard_of"),
        ".check": ("CheckReport", "check_file"),
        ".filters": ("FilterReport", "Filters"),
        ".formats": ("FileFormat", "resolve_format"),
        ".lines": ("Problem", "numbered_lines"),
        ".prepared": ("Prepared", "prepare", "prepare_examples"),
        ".readers": ("files_of", "iterate", "read_examples"),
        ".references": ("PooledExample", "pool_references"),
        ".stats": ("Stats", "file_stats"),
        ".text": ("normalise",),
        ".units": (
            "Bpe",
            "Characters",
            "Graphemes",
            "Tokens",
            "Unit",
            "make_unit",
            "train_bpe",
            "unit_from_state",
            "units_for",
        ),
        ".vocab": ("SymbolTable", "TagTable", "Vocabulary"),
    },
)

__all__ = [
    "Bpe",
    "Characters",
    "CheckReport",
    "FileFormat",
    "FilterReport",
    "Filters",
    "Graphemes",
    "PooledExample",
    "Prepared",
    "Problem",
    "Stats",
    "SymbolTable",
    "TagTable",
    "Tokens",
    "Unit",
    "Vocabulary",
    "check_file",
    "collate",
    "file_stats",
    "files_of",
    "iterate",
    "make_unit",
    "normalise",
    "numbered_lines",
    "plan_batches",
    "plan_in_length_order",
    "pool_references",
    "prepare",
    "prepare_examples",
    "read_examples",
    "resolve_format",
    "shard_of",
    "train_bpe",
    "unit_from_state",
    "units_for",
]
