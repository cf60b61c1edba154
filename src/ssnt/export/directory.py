"""An exported model: a directory that is written whole or not at all."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

import onnx

from ssnt.checkpoint.load import SavedModel
from ssnt.checkpoint.ours import shown
from ssnt.checkpoint.publish import staged
from ssnt.checkpoint.save import without_places
from ssnt.errors import ModelError, StorageError
from ssnt.export.card import card, requirements
from ssnt.export.graphs import build_graphs, transition_size
from ssnt.export.quantise import quantised
from ssnt.files import atomic_path, sha256_of, sync, write_json, write_text
from ssnt.nn import SSNT, Model
from ssnt.onnx_runtime.layout import CARD, GRAPHS, KIND, MANIFEST, REQUIREMENTS, VOCABULARY, Precision
from ssnt.onnx_runtime.manifest import ExportManifest, Sizes

EXPORTED = "uniSSNT, biSSNT, uniSSNT+, biSSNT+ and rnnt"
"""The kinds of models that can be exported."""

_MARK = f'"kind": "{KIND}"'


def export_onnx(
    saved: SavedModel, directory: str | os.PathLike[str], *, int8: bool = False, overwrite: bool = False
) -> None:
    """Writes a model as ONNX graphs with its vocabulary, for :func:`ssnt.onnx_runtime.load` or any other runtime.

    Args:
        saved: The model with its vocabulary and settings, such as :func:`ssnt.checkpoint.load_model` gives.
        directory: Where.
        int8: Whether the weights of encoder and decoder are kept in 8 bits: less than a third of the size, and
            probabilities that differ a little.
        overwrite: Whether an exported model that is there already may be replaced.

    Raises:
        ModelError: This kind of model cannot be exported.
        StorageError: There is something already, or it cannot be written.
    """
    target = Path(os.path.realpath(directory))
    _require_free(target, overwrite=overwrite)
    model = exportable(saved.model)
    graphs = build_graphs(model)
    graphs = quantised(graphs) if int8 else graphs
    is_replaced = target.is_dir() and any(target.iterdir())
    place = target.with_name(f".ssnt-{target.name}.new") if is_replaced else target
    if is_replaced and place.is_dir():  # left behind by one that was killed
        shutil.rmtree(place)
    with staged(place) as stage:
        _write(stage, saved, model, graphs, "int8" if int8 else "float32")
    if is_replaced:
        _exchange(place, target)


def exportable(model: Model) -> SSNT:
    """The model, if it is of a kind that can be exported.

    Raises:
        ModelError: It is not.
    """
    if model.config.architecture not in ("ssnt", "rnnt") or not isinstance(model, SSNT):
        other = "uniSSNT+" if model.is_streaming else "biSSNT+"
        raise ModelError(
            f"export: {model.config.name!r} cannot be exported; those that can are {EXPORTED}. Use it with PyTorch, or "
            f"train one of them, such as {other} (ssnt train --model {other})"
        )
    return model


def _write(
    stage: Path, saved: SavedModel, model: SSNT, graphs: dict[str, onnx.ModelProto], precision: Precision
) -> None:
    """Writes all files, the one that describes the others last."""
    for name, graph in graphs.items():
        with atomic_path(stage / name) as partial:
            partial.write_bytes(graph.SerializeToString(deterministic=True))
    write_json(stage / VOCABULARY, saved.vocabulary.to_json())
    files = {name: sha256_of(stage / name) for name in (*graphs, VOCABULARY)}
    sizes = Sizes(
        source_symbols=model.config.src_vocab_size,
        target_symbols=model.config.tgt_vocab_size,
        tags=model.config.feature_vocab_size,
        condition=model.condition_size,
        transition=transition_size(model),
        hidden=model.config.hidden_size,
        encoder_layers=model.config.encoder_layers,
        decoder_layers=model.config.decoder_layers,
    )
    config = without_places(saved.config)
    manifest = ExportManifest(config, sizes, model.is_streaming, model.has_tags, precision, files)
    write_text(stage / REQUIREMENTS, requirements(saved.vocabulary))
    write_text(stage / CARD, card(manifest))
    write_text(stage / MANIFEST, manifest.to_text())


def _require_free(target: Path, *, overwrite: bool) -> None:
    if os.path.lexists(target) and not target.is_dir():
        raise StorageError(errno.ENOTDIR, f"{target}: is not a directory; choose another place for the exported model")
    try:
        names = sorted(one.name for one in target.iterdir()) if target.exists() else []
    except OSError as error:
        raise StorageError(error.errno, f"{target}: cannot be read: {error.strerror}") from error
    if not names:
        return
    if not overwrite:
        raise StorageError(
            errno.EEXIST,
            f"{target}: exists and is not empty; choose another directory, or say that it may be overwritten "
            "(--overwrite, overwrite=True)",
        )
    if not _is_export(target):
        raise StorageError(
            errno.EEXIST,
            f"{target}: holds other files ({shown(names)}) and no exported model, so there is nothing to overwrite; "
            "choose another directory",
        )
    known = {*GRAPHS, VOCABULARY, MANIFEST, REQUIREMENTS, CARD}
    if foreign := [name for name in names if name not in known]:
        raise StorageError(
            errno.EEXIST,
            f"{target}: holds files beside the exported model ({shown(foreign)}), which would be lost with it; move "
            "them elsewhere, or choose another directory",
        )


def _is_export(target: Path) -> bool:
    """Whether a directory holds an exported model, of whatever version, damaged or not."""
    try:
        return _MARK in (target / MANIFEST).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _exchange(new: Path, old: Path) -> None:
    """Puts a finished directory in the place of another: at every moment one of the two is there.

    Where the system cannot exchange two names at once, there is none for the time between two renames.
    """
    try:
        aside = new if _exchanged(new, old) else _moved_one_by_one(new, old)
    except OSError as error:
        shutil.rmtree(new, ignore_errors=True)
        message = (
            f"{old}: could not be replaced ({error.strerror or error}); what was there before is unchanged. Choose "
            "another directory, or make its parent writable"
        )
        raise StorageError(error.errno or errno.EIO, message) from error
    with suppress(OSError):  # the new one is in its place; only a crash of the whole system could still undo that
        sync(old.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _moved_one_by_one(new: Path, old: Path) -> Path:
    """Puts ``new`` in the place of ``old`` by two renames; returns where ``old`` is then."""
    aside = old.with_name(f".ssnt-{old.name}.old")
    shutil.rmtree(aside, ignore_errors=True)  # left behind by one that was killed, and replaced long since
    os.rename(old, aside)
    try:
        os.rename(new, old)
    except OSError:
        os.rename(aside, old)
        raise
    return aside


def _exchanged(one: Path, other: Path) -> bool:
    """Exchanges two names at once, as Linux can; False if this system or file system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # TypeError: Windows
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)
