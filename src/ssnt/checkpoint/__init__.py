"""The model directory: written whole or not at all, checked when read, and nothing in it is ever run.

============  ====================================================================================
module        what
============  ====================================================================================
``save``      a model, or one model for each tag set, into a directory
``load``      and back, with every file checked
``manifest``  ``config.yaml``: version, kind, settings, and the SHA-256 of every other file
``weights``   ``model.safetensors``
``record``    what ``metrics.json`` holds
``card``      ``README.md``, the model card
``folder``    reading files of a directory that may be damaged or hostile
``ours``      what in a directory ssnt has written, and may be replaced
``publish``   putting a new directory in the place of an old one
============  ====================================================================================

A model directory holds::

    config.yaml         written last
    vocab.json          symbols, tags, and how text is divided
    model.safetensors   the weights
    metrics.json        scores, each with how it was computed, and the SHA-256 of the data
    README.md           the model card, which may be edited
    training/           what training keeps to go on from; not a part of the model

One that has a model for each tag set holds ``config.yaml``, ``metrics.json``, ``README.md`` and the models' own
directories ``models/000``, ``models/001`` and so on.
"""

from ssnt.checkpoint.load import SavedModel, SavedPerTag, load, load_model, load_per_tag
from ssnt.checkpoint.manifest import FORMAT_VERSION, Manifest, read_manifest
from ssnt.checkpoint.publish import require_free
from ssnt.checkpoint.record import metrics_record
from ssnt.checkpoint.save import save_model, save_per_tag, update_metrics

__all__ = [
    "FORMAT_VERSION",
    "Manifest",
    "SavedModel",
    "SavedPerTag",
    "load",
    "load_model",
    "load_per_tag",
    "metrics_record",
    "read_manifest",
    "require_free",
    "save_model",
    "save_per_tag",
    "update_metrics",
]
