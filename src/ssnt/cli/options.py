"""Options that several verbs have: one name, one meaning, one sentence of help."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ssnt.decode.run import SearchName


class FileFormat(StrEnum):
    """How a data file is laid out; the same names as :data:`ssnt.config.Format`."""

    TSV = "tsv"
    JSONL = "jsonl"
    PARALLEL = "parallel"
    SIGMORPHON2016 = "sigmorphon2016"
    SIGMORPHON2017 = "sigmorphon2017"
    SIGMORPHON2023 = "sigmorphon2023"
    MORPH_TRANS = "morph-trans"
    G2P = "g2p"
    CMUDICT = "cmudict"


class Search(StrEnum):
    """How the best output is looked for."""

    MARGINAL = "marginal"
    PATH = "path"
    ONLINE = "online"


class ModelName(StrEnum):
    """What kind of model is trained; the same names as :data:`ssnt.config.MODEL_NAMES`."""

    UNI_SSNT = "uniSSNT"
    BI_SSNT = "biSSNT"
    UNI_SSNT_PLUS = "uniSSNT+"
    BI_SSNT_PLUS = "biSSNT+"
    SEQ2SEQ = "seq2seq"
    ATTENTION = "attention"
    ADAPTED_SEQ2SEQ = "adapted-seq2seq"
    RNNT = "rnnt"
    PREFIX_ATTENTION = "prefix-attention"
    JOINT_NETWORK = "joint-network"


class EngineName(StrEnum):
    """Where independent work is done; the same names as :data:`ssnt.engines.EngineName`."""

    LOCAL = "local"
    RAY = "ray"


def _metric_names(incomplete: str) -> Iterator[str]:
    """Completes the last of several names with commas between them."""
    from ssnt.metrics import METRICS

    before, comma, last = incomplete.rpartition(",")
    yield from (f"{before}{comma}{name}" for name in (*METRICS, "latency") if name.startswith(last))


ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model directory, or the name of a model on the Hugging Face hub.")
]
ModelsArgument = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A model directory or a name on the Hugging Face hub; A,B: their ensemble."),
]
PairsArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A file of pairs (.gz is unpacked); - is standard input.")
]
SettingsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Settings of the data, such as data.lowercase=true; see the section data of ssnt train --print-config.",
        show_default=False,
    ),
]

SearchOption = Annotated[
    Search | None,
    typer.Option(
        "--search",
        metavar="NAME",
        help="marginal: the most probable output; path: with its alignment; online: what a stream would write.",
        show_default="what the model was trained for",
    ),
]
BeamOption = Annotated[
    int | None,
    typer.Option("--beam", min=1, metavar="K", help="How many hypotheses are kept.", show_default="the model's"),
]
BatchSizeOption = Annotated[
    int, typer.Option("--batch-size", min=1, metavar="N", help="How many inputs are worked on together.")
]
DeviceOption = Annotated[str, typer.Option("--device", metavar="DEVICE", help="Where the model runs: cpu or cuda.")]
TagsOption = Annotated[
    str | None,
    typer.Option(
        "--tags",
        metavar="TAGS",
        help="Tags of every input, such as 'V;PST', instead of a column; split as in the model's data.",
        show_default=False,
    ),
]
OutOption = Annotated[
    str | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="Write to a file, whole or not at all.",
        show_default="standard output",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

_LAYOUTS = f"How the file is laid out: {', '.join(FileFormat)}."
InputFormatOption = Annotated[
    FileFormat | None,
    typer.Option("--input-format", metavar="NAME", help=_LAYOUTS, show_default="as the model's data"),
]
FormatOfModelOption = Annotated[
    FileFormat | None,
    typer.Option("--format", "--input-format", metavar="NAME", help=_LAYOUTS, show_default="as the model's data"),
]
FormatOption = Annotated[
    FileFormat | None,
    typer.Option("--format", "--input-format", metavar="NAME", help=_LAYOUTS, show_default="tsv"),
]
TrainingFormatOption = Annotated[
    FileFormat | None,
    typer.Option("--format", "--input-format", help="How the files are laid out.", show_default="the preset's, or tsv"),
]
SourceColumnOption = Annotated[
    str | None,
    typer.Option("--source-column", metavar="C", help="Column of the input, by number or name.", show_default=False),
]
TargetColumnOption = Annotated[
    str | None,
    typer.Option("--target-column", metavar="C", help="Column of the output, by number or name.", show_default=False),
]
TagsColumnOption = Annotated[
    str | None,
    typer.Option("--tags-column", metavar="C", help="Column of the tags, by number or name.", show_default=False),
]

MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="A,B",
        autocompletion=_metric_names,
        help="What to measure, with commas between.",
        show_default="accuracy,edit_distance, and what else can be told",
    ),
]
MetricOption = Annotated[
    str, typer.Option("--metric", metavar="NAME", autocompletion=_metric_names, help="What to compare by.")
]
ResamplesOption = Annotated[
    int,
    typer.Option(
        "--resamples", min=0, metavar="N", help="Bootstrap resamples behind each interval; 0 for no intervals."
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Of the random resamples.")]


def _engine_option(about: str = "") -> Any:
    where = "where the work is done: local: in processes of this machine; ray: on a Ray cluster."
    return typer.Option("--engine", metavar="NAME", help=_sentence(about, where), show_default="local")


def _address_option(about: str = "") -> Any:
    where = "where the Ray cluster is: HOST:PORT of its head, or auto."
    shown = "one started on this machine"
    return typer.Option("--address", metavar="ADDRESS", help=_sentence(about, where), show_default=shown)


def _workers_option(about: str = "") -> Any:
    how_many = "how many processes do the work, in one thread each."
    return typer.Option("--workers", min=1, metavar="N", help=_sentence(about, how_many), show_default="one a core")


def _sentence(about: str, text: str) -> str:
    whole = f"{about}{text}"
    return whole[0].upper() + whole[1:]


_PER_TAG = "for the models of --per-tag: "
EngineOption = Annotated[EngineName | None, _engine_option()]
AddressOption = Annotated[str | None, _address_option()]
WorkersOption = Annotated[int | None, _workers_option()]
PerTagEngineOption = Annotated[EngineName | None, _engine_option(_PER_TAG)]
PerTagAddressOption = Annotated[str | None, _address_option(_PER_TAG)]
PerTagWorkersOption = Annotated[int | None, _workers_option(_PER_TAG)]


PortOption = Annotated[
    int, typer.Option("--port", min=0, max=65535, metavar="N", help="The port of the service; 0 for any that is free.")
]


def hardware_settings(engine: EngineName | None, address: str | None, workers: int | None) -> dict[str, Any]:
    """What the options about engines say, as settings; None: not given."""
    return {"engine": None if engine is None else engine.value, "address": address, "workers": workers}


def search_name(search: Search | None) -> SearchName | None:
    """The search as the library calls it."""
    return None if search is None else search.value


def names(list_of_names: str) -> list[str]:
    """The names in a list with commas, each once, without spaces and empty ones."""
    return list(dict.fromkeys(one.strip() for one in list_of_names.split(",") if one.strip()))
