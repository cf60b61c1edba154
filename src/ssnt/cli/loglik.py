"""``ssnt loglik``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ssnt.cli.data_options import data_settings
from ssnt.cli.inputs import CHUNK_BATCHES, Inputs, UnknownTags
from ssnt.cli.models import load_transducer
from ssnt.cli.options import (
    BatchSizeOption,
    DeviceOption,
    FormatOfModelOption,
    ModelsArgument,
    OutOption,
    PairsArgument,
    SourceColumnOption,
    TagsColumnOption,
    TagsOption,
    TargetColumnOption,
)
from ssnt.cli.output import results
from ssnt.data.rows import row
from ssnt.errors import DataError

if TYPE_CHECKING:
    from ssnt.decode import Failure
    from ssnt.pipeline import PairScore
    from ssnt.types import Example


def loglik(
    model: ModelsArgument,
    file: PairsArgument,
    out: OutOption = None,
    batch_size: BatchSizeOption = 64,
    form: FormatOfModelOption = None,
    source_column: SourceColumnOption = None,
    target_column: TargetColumnOption = None,
    tags_column: TagsColumnOption = None,
    tags: TagsOption = None,
    device: DeviceOption = "cpu",
) -> int:
    """Write the exact log p(y|x) of each pair, summed over all alignments.

    Columns are log_prob (natural logarithm), tokens (target symbols with the end symbol), source and target. The total
    and the perplexity, exp(-total / tokens), go to standard error.

    A line that cannot be used has two empty columns, and a message. The exit code is then 1, or 2 if no line could be
    used.

    Examples:
        ssnt loglik model test.tsv
        ssnt loglik model test.tsv --out loglik.tsv
    """
    from ssnt.metrics import perplexity

    transducer = load_transducer(model, device)
    data = data_settings(
        transducer.config.data,
        format_=form,
        source_column=source_column,
        target_column=target_column,
        tags_column=tags_column,
    )
    inputs = Inputs(file, data, needs_target=True, has_tags=transducer.has_tags, tags=tags)

    def answer(examples: Sequence[Example]) -> Sequence[PairScore | Failure]:
        return transducer.score_each(examples, batch_size=batch_size)

    total, tokens = 0.0, 0
    unknown_tags = UnknownTags(transducer, data)
    chunks = inputs.chunks(CHUNK_BATCHES * batch_size)
    with results(out) as sink:
        sink.write(row(["log_prob", "tokens", "source", "target"]))
        for chunk in chunks:
            for example, score in inputs.answered(chunk, answer):
                target = example.target or ""
                if isinstance(score, DataError):
                    sink.write(row(["", "", example.source, target]))
                    continue
                sink.write(row([f"{score.log_prob:.6f}", str(score.tokens), example.source, target]))
                unknown_tags.see(example.tags)
                total += score.log_prob
                tokens += score.tokens
            sink.flush()
    if tokens:
        value = perplexity(max(0.0, -total), tokens)
        print(f"log_prob {total:.4f}  tokens {tokens}  perplexity {value:.4f}", file=sys.stderr)
    unknown_tags.tell()
    return inputs.exit_code()
