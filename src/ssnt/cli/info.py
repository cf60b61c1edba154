"""``ssnt info``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ssnt.cli.options import JsonOption, ModelArgument
from ssnt.cli.scoring import interval, number

if TYPE_CHECKING:
    from pathlib import Path

    from ssnt.checkpoint import Manifest
    from ssnt.pipeline import Transducer


def info(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Check a model directory and show what it holds: kind, sizes, scores, files, settings.

    Examples:
        ssnt info model
        ssnt info model --json
    """
    from ssnt.checkpoint import read_manifest
    from ssnt.pipeline import Transducer
    from ssnt.pipeline.hub import find_directory

    directory = find_directory(model)
    transducer = Transducer.from_pretrained(directory)
    record = _record(model, directory, read_manifest(directory), transducer)
    if as_json:
        print(json.dumps(record, ensure_ascii=False, indent=2))
    else:
        _print(record)


def _record(model: str, directory: Path, manifest: Manifest, transducer: Transducer) -> dict[str, Any]:
    from ssnt.checkpoint import FORMAT_VERSION
    from ssnt.pipeline import PerTagTransducer

    several = isinstance(transducer, PerTagTransducer)
    models = list(transducer.models.values()) if isinstance(transducer, PerTagTransducer) else [transducer]
    sizes: dict[str, Any] = {"parameters": sum(p.numel() for one in models for p in one.model.parameters())}
    if several:
        sizes["models"] = len(models)
    else:
        vocabulary = transducer.vocabulary
        sizes |= {
            "source_symbols": len(vocabulary.source),
            "target_symbols": len(vocabulary.target),
            "tags": 0 if vocabulary.tags is None else len(vocabulary.tags),
        }
    return {
        "model": model,
        "kind": manifest.kind,
        "name": transducer.config.model.name,
        "ssnt_version": manifest.ssnt_version,
        "format_version": FORMAT_VERSION,
        "is_online": transducer.is_online,
        "has_tags": transducer.has_tags,
        "sizes": sizes,
        "files": {name: (directory / name).stat().st_size for name in sorted(("config.yaml", *manifest.files))},
        "metrics": dict(transducer.metrics),
        "config": transducer.config.model_dump(),
    }


def _print(record: dict[str, Any]) -> None:
    from ssnt.cli.output import print_table
    from ssnt.config import to_yaml

    sizes = ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in record["sizes"].items())
    kind = "one model for each tag set" if record["kind"] == "per-tag" else "one model"
    rows = [
        ["model", record["model"]],
        ["kind", f"{kind}, {record['name']}"],
        ["sizes", sizes],
        ["online", "yes: it can stream" if record["is_online"] else "no: it reads the whole input first"],
        ["tags", "yes" if record["has_tags"] else "no"],
        ["written by", f"ssnt {record['ssnt_version']}"],
    ]
    for name, value in rows:
        print(f"{name:11}{value}")
    scores = [
        [part, score["name"], _number(score["value"]), interval(score["low"], score["high"]), score["signature"]]
        for part, found in record["metrics"].get("scores", {}).items()
        for score in found
    ]
    if scores:
        print()
        print_table(["data", "metric", "value", "95% interval", "signature"], scores, numeric=(2,))
    print()
    print_table(["file", "bytes"], [[name, f"{size:,}"] for name, size in record["files"].items()], numeric=(1,))
    print(f"\n{to_yaml(record['config'])}", end="")


def _number(value: float | None) -> str:
    return "-" if value is None else number(value)
