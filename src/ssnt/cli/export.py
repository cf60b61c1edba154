"""``ssnt export``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ssnt.cli.options import ModelArgument

if TYPE_CHECKING:
    from ssnt.checkpoint import SavedModel


def export(
    model: ModelArgument,
    onnx: Annotated[
        Path,
        typer.Option("--onnx", metavar="DIR", help="Write ONNX graphs with the vocabulary there.", show_default=False),
    ],
    int8: Annotated[
        bool, typer.Option("--int8", help="Keep weights in 8 bits: a third of the size, slightly other answers.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an exported model that is there.")] = False,
) -> None:
    """Write a model as ONNX, which runs without PyTorch: ssnt.onnx_runtime.load(DIR), or any other runtime.

    The directory holds the encoder, for whole inputs and by steps, a step of the decoder, what joins them, the
    vocabulary and the settings. Needs pip install 'ssnt[export]'; what runs it does not.

    Examples:
      ssnt export model --onnx model-onnx
      ssnt export model --onnx model-int8 --int8 --overwrite
    """
    saved = _load(model)
    _require_packages()
    from ssnt.export import export_onnx

    export_onnx(saved, onnx, int8=int8, overwrite=overwrite)
    _show(onnx, saved.config.model.name)


def _load(model: str) -> SavedModel:
    from ssnt.checkpoint import SavedPerTag, load
    from ssnt.errors import ModelError
    from ssnt.pipeline.hub import find_directory

    directory = find_directory(model)
    saved = load(directory)
    if isinstance(saved, SavedPerTag):
        raise ModelError(
            f"{directory}: holds {len(saved.models)} models, one for each tag set, which are exported one by one: "
            f"ssnt export {directory}/models/000 --onnx DIR and so on; its config.yaml says whose tags each has"
        )
    return saved


def _show(directory: Path, name: str) -> None:
    from ssnt.cli.output import print_table

    sizes = {one.name: one.stat().st_size for one in sorted(directory.iterdir())}
    typer.echo(f"{name} is written to {directory}", err=True)
    print_table(["file", "bytes"], [[name, f"{size:,}"] for name, size in sizes.items()], numeric=(1,))


def _require_packages() -> None:
    from importlib.util import find_spec

    from ssnt.errors import ConfigError

    for name in ("onnx", "onnxruntime"):
        if find_spec(name) is None:
            raise ConfigError(f"ssnt export needs {name}, which is not installed; run pip install 'ssnt[export]'")
