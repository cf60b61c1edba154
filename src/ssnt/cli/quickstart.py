"""``ssnt quickstart``: the whole way from data to a picture, on the sample that comes with the package."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ssnt.cli.options import PortOption
from ssnt.cli.serve import require_serving, say_where

if TYPE_CHECKING:
    from ssnt.config import Config
    from ssnt.pipeline import Transducer

SHOWN = ("zocken", "gezockt")
"""A verb of the test set: the paper's Figure 3b."""


def quickstart(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where the model and the picture go.")] = Path(
        "quickstart"
    ),
    epochs: Annotated[
        int | None, typer.Option("--epochs", min=1, metavar="N", help="Passes over the data.", show_default="15")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was interrupted.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start anew if the directory exists.")] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Then serve it, with a page to watch it on; a model that is there is used.")
    ] = False,
    port: PortOption = 8000,
) -> None:
    """Train on the embedded sample, evaluate, stream one word, draw its alignment: about a minute.

    The sample is German verbs with their past participles. The model reads from left to right, so it can write before
    the word has ended. Verbs of the dev and test sets have stems that the training set does not have.

    Examples:
      ssnt quickstart
      ssnt quickstart --out verbs --overwrite
      ssnt quickstart --serve
    """
    if serve:
        _prepare_to_serve(port)  # before a minute of training
    if serve and not resume and not overwrite and (found := _trained(out)) is not None:
        typer.echo(f"The model in {out} is there already; --overwrite trains it anew.")
        _serve(found, out, port)
        return
    transducer = _train(out, epochs, resume=resume, overwrite=overwrite)
    if serve:
        typer.echo()
        _serve(transducer, out, port)
        return
    typer.echo("\nNext:")
    for line in (
        f"  ssnt quickstart --out {out} --serve    watch it read and write, on a page",
        f"  ssnt stream {out}                     type verbs and see them answered letter by letter",
        f"  echo abzocken | ssnt predict {out}    the most probable participle",
        "  ssnt train --train PAIRS.tsv --dev OTHERS.tsv --out MODEL    your own: input, tab, output",
    ):
        typer.echo(line)


def _train(out: Path, epochs: int | None, *, resume: bool, overwrite: bool) -> Transducer:
    """Trains, and shows what has come of it."""
    from ssnt.training import train

    config = _config(out, epochs)
    typer.echo(f"Training a {config.model.name} on German verbs and their participles.\n", err=True)
    transducer = train(config, resume=resume, overwrite=overwrite)
    _show_scores(transducer)
    _show_outputs(transducer)
    _show_stream(transducer, SHOWN[0])
    picture = out / "alignment.png"
    _draw(transducer, picture)
    typer.echo(f"\nThe alignment of {SHOWN[0]} with {SHOWN[1]} is drawn in {picture}")
    return transducer


def _trained(out: Path) -> Transducer | None:
    """The model of an earlier quickstart, if there is one."""
    from ssnt.errors import ModelError
    from ssnt.pipeline import Transducer

    try:
        return Transducer.from_pretrained(out) if out.is_dir() else None
    except ModelError:  # whatever is there, training says what to do about it
        return None


def _prepare_to_serve(port: int) -> None:
    require_serving()
    from ssnt.serve import check_address, keep_few_shapes

    check_address("127.0.0.1", port)
    keep_few_shapes()


def _serve(transducer: Transducer, out: Path, port: int) -> None:
    from ssnt.serve import ServedModel, WorkedExample, serve

    model = ServedModel(out.resolve().name, transducer, WorkedExample(SHOWN[0], (), SHOWN[1]))
    serve([model], port=port, on_start=say_where)


def _config(out: Path, epochs: int | None) -> Config:
    from ssnt.config import load_config
    from ssnt.data.sample import sample_path

    settings: dict[str, object] = {
        "data": {"train": str(sample_path("train")), "dev": str(sample_path("dev"))},
        "out": str(out),
    }
    if epochs is not None:
        settings["training"] = {"max_epochs": epochs}
    return load_config(preset="quickstart", overrides=settings)


def _show_scores(transducer: Transducer) -> None:
    from ssnt.data.readers import read_examples
    from ssnt.data.sample import sample_path
    from ssnt.evaluation import evaluate_model
    from ssnt.metrics import Score

    dev = next(Score(**one) for one in transducer.metrics["scores"]["dev"] if one["name"] == "accuracy")
    examples = list(read_examples(str(sample_path("test")), transducer.config.data))
    (test,) = evaluate_model(transducer, examples, ["accuracy"]).scores
    typer.echo(f"\ndev  {dev}   the epochs were chosen on these verbs")
    typer.echo(f"test {test}   never seen before")


def _show_outputs(transducer: Transducer) -> None:
    words = (SHOWN[0], "abzocken", "verzocken")
    typer.echo("\nThe most probable participle, and its exact probability:")
    for word, answer in zip(words, transducer.transduce(words), strict=True):
        typer.echo(f"  {word:12s} {answer.text:14s} p = {math.exp(answer.log_prob):.3f}")


def _show_stream(transducer: Transducer, word: str) -> None:
    typer.echo(f"\n{word}, letter by letter; what is in brackets may still change, for two more letters at most:")
    stream = transducer.stream(beam=8, max_delay=2)
    written = ""
    for letter in word:
        update = stream.push(letter)
        written += update.committed
        typer.echo(f"  read {letter}   {written}{'(' + update.tentative + ')' if update.tentative else ''}")
    typer.echo(f"  end      {written}{stream.finish().committed}")


def _draw(transducer: Transducer, picture: Path) -> None:
    from ssnt.plots import plot_alignment, save_figure

    (pair,) = transducer.align([SHOWN])
    labels = [*pair.source_symbols, "</s>"], [*pair.target_symbols, "</s>"]
    save_figure(plot_alignment(pair.emit, *labels, pair.path), picture)
