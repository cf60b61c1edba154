"""The settings of a training run: data, batches, model, optimiser, training, validation, search, hardware."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from ssnt.config.base import Settings
from ssnt.config.model import ArchitectureConfig
from ssnt.engines import EngineName
from ssnt.types import End

Format = Literal[
    "tsv", "jsonl", "parallel", "sigmorphon2016", "sigmorphon2017", "sigmorphon2023", "morph-trans", "g2p", "cmudict"
]
"""How a data file is laid out; ``ssnt.data.formats`` says what each means."""

UnitName = Literal["characters", "graphemes", "tokens", "bpe"]
"""What a symbol is: an NFC code point, a grapheme cluster, a whitespace-separated token, a byte-pair unit."""

Column = PositiveInt | str
"""A column by its number, counted from 1, or by its name in the file's first line."""

DevMetric = Literal[
    "accuracy", "macro_accuracy", "edit_distance", "wer", "per", "rouge_1", "rouge_2", "rouge_l", "perplexity"
]


class DataConfig(Settings):
    """Where examples come from, what their symbols are, and which are used.

    Attributes:
        train: Training file (``.gz`` is unpacked); for ``parallel``, the name without ``.src`` and ``.tgt``.
        dev: Development file, from which no symbol and no weight is learnt.
        format: How the files are laid out.
        source_column: Column of the input, by number or by name in the first line; None: what the format says.
        target_column: Column of the output.
        tags_column: Column of the tags; None: what the format says, which for ``tsv`` is no tags, and for ``jsonl`` the
            key ``tags`` if the lines have it.
        tag_separator: What stands between two tags of a column; None: what the format says (``;`` for most).
        source_unit: What a source symbol is; None: what the format says (characters for most).
        target_unit: What a target symbol is; None: what the format says.
        bpe_size: Number of byte-pair units learnt from the training data, for each side that uses them.
        lowercase: Whether source and target are lowercased.
        digits_to_hash: Whether every digit becomes ``#``, as in the paper's summaries.
        max_source_length: Training pairs with more source symbols are left out; None: no limit.
        max_target_length: Training pairs with more target symbols are left out.
        max_cells: Training pairs whose lengths multiply to more are left out.
        min_count: Symbols that the training data has less often are unknown.
        max_source_vocab: At most so many source symbols, the most frequent ones.
        max_target_vocab: At most so many target symbols.
        share_vocab: Whether source and target have one vocabulary.
        cache: Where prepared data is kept; None: ``$SSNT_CACHE``, or ``ssnt`` in the user's cache directory.
    """

    train: str | None = None
    dev: str | None = None
    format: Format = "tsv"
    source_column: Column | None = None
    target_column: Column | None = None
    tags_column: Column | None = None
    tag_separator: str | None = Field(default=None, min_length=1)
    source_unit: UnitName | None = None
    target_unit: UnitName | None = None
    bpe_size: int = Field(default=8000, ge=16)
    lowercase: bool = False
    digits_to_hash: bool = False
    max_source_length: PositiveInt | None = None
    max_target_length: PositiveInt | None = None
    max_cells: PositiveInt | None = None
    min_count: PositiveInt = 1
    max_source_vocab: PositiveInt | None = None
    max_target_vocab: PositiveInt | None = None
    share_vocab: bool = False
    cache: str | None = None


class BatchConfig(Settings):
    """How examples are put into batches.

    Attributes:
        size: Examples in a batch (paper: 32).
        max_cells: If set, a batch is filled until ``examples x longest source x longest target`` exceeds this, and
            ``size`` is only the most it may hold.
        bucket: How many batches' worth of shuffled examples are sorted by length together; 1 does not sort.
    """

    size: PositiveInt = 32
    max_cells: PositiveInt | None = None
    bucket: PositiveInt = 50


class OptimiserConfig(Settings):
    """How weights are changed.

    Attributes:
        name: ``adam`` (paper) or ``adamw``.
        learning_rate: The step size, at its highest (paper: 0.001).
        weight_decay: Decay of the weights, for ``adamw``.
        gradient_clip: Largest norm of a gradient; None: not clipped.
        schedule: How the step size falls: ``constant``, ``linear`` or ``cosine`` (to ``final_fraction`` at the last
            step), ``inverse-sqrt``, or ``plateau`` (multiplied by ``plateau_factor`` when the dev metric has not
            improved for ``plateau_patience`` validations).
        warmup_steps: Steps over which the step size first rises from 0.
        final_fraction: Where ``linear`` and ``cosine`` end, as a fraction of ``learning_rate``.
        plateau_patience: See ``schedule``.
        plateau_factor: See ``schedule``.
    """

    name: Literal["adam", "adamw"] = "adam"
    learning_rate: float = Field(default=1e-3, gt=0.0)
    weight_decay: float = Field(default=0.0, ge=0.0)
    gradient_clip: float | None = Field(default=5.0, gt=0.0)
    schedule: Literal["constant", "linear", "cosine", "inverse-sqrt", "plateau"] = "constant"
    warmup_steps: NonNegativeInt = 0
    final_fraction: float = Field(default=0.0, ge=0.0, le=1.0)
    plateau_patience: PositiveInt = 3
    plateau_factor: float = Field(default=0.5, gt=0.0, lt=1.0)

    @model_validator(mode="after")
    def _check_decay(self) -> Self:
        if self.weight_decay and self.name != "adamw":
            raise ValueError(
                f"setting 'optimiser.weight_decay': expected 0 with adam, got {self.weight_decay}; "
                "set optimiser.name to adamw"
            )
        return self


class TrainingConfig(Settings):
    """How long and how training goes on.

    Attributes:
        max_epochs: Passes over the training data, at most.
        max_steps: Steps, at most; None: as many as the epochs have.
        seed: Fixes initial weights, order of the data, dropout and which examples are crossed.
        end: Where a path may end: ``any`` (paper) or ``last``. Without effect for encoder-decoders (``seq2seq``,
            ``attention``, ``adapted-seq2seq``), which have no paths.
        fastemit: Weight of the term that makes an online model write earlier; 0: none.
        delay_weight: Nats, for each target symbol, that writing it at the end of the source costs more than at its
            start: the weight of the expected delay in the loss, which makes an online model write earlier; 0: none.
        average: The weights of so many of the best validations are averaged at the end; 1: the best alone.
        running_mean: If above 0, what is measured and kept is a running mean of the weights, of which so much stays at
            each step (0.999: over about a thousand steps); 0: the weights as they are.
        crossover: If above 0, each epoch has so many more examples for each one that can be crossed, made anew of the
            beginning of one and the end of another with the same tags, both cut where the target copies the source: for
            words that are changed according to their ends, as in inflection. Symbols must be characters or graphemes.
        crossover_keep: If set, the ends that ``crossover`` uses are not only whole words, but also parts of words that
            have at least so many source symbols.
        checkpoint_minutes: A checkpoint is written at every validation, and when so many minutes have passed.
        per_tag: One model for each tag set (the paper's setting for inflection) rather than one for all. These are
            trained on the CPU. A tag set of which fewer than two examples can be used has no model.
        tensorboard: Whether to log for TensorBoard too (``pip install ssnt[tb]``).
    """

    max_epochs: PositiveInt = 50
    max_steps: PositiveInt | None = None
    seed: NonNegativeInt = 1
    end: End = "any"
    fastemit: float = Field(default=0.0, ge=0.0)
    delay_weight: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    average: PositiveInt = 1
    running_mean: float = Field(default=0.0, ge=0.0, lt=1.0)
    crossover: float = Field(default=0.0, ge=0.0, le=100.0)
    crossover_keep: PositiveInt | None = None
    checkpoint_minutes: float = Field(default=10.0, gt=0.0)
    per_tag: bool = False
    tensorboard: bool = False


class ValidationConfig(Settings):
    """How models are chosen on the development data.

    Attributes:
        metric: What the best model is best in.
        every: Epochs between validations.
        patience: Training stops after so many validations without improvement; None: it does not. As long as hardly any
            output is right, a lower perplexity is an improvement too.
        beam: Beam of the search on the development data; None: that of ``search``.
        examples: At most so many development examples, the first ones; None: all.
    """

    metric: DevMetric = "accuracy"
    every: PositiveInt = 1
    patience: PositiveInt | None = 10
    beam: PositiveInt | None = None
    examples: PositiveInt | None = None


class SearchConfig(Settings):
    """How a trained model searches unless told otherwise.

    Attributes:
        search: ``marginal`` (the most probable output), ``path`` (the paper's Algorithm 1) or ``online``.
        beam: How many hypotheses are kept; 1 is greedy.
        length_normalisation: Outputs are ranked by ``log_prob / length ** length_normalisation``.
        max_length: Longest output in symbols.
        max_length_ratio: Longest output as a multiple of the source length, plus ``max_length_margin``.
        max_length_margin: See ``max_length_ratio``.
        copy_unknown: Whether an unknown symbol in the output is replaced by the source symbol it was written at.
    """

    search: Literal["marginal", "path", "online"] = "marginal"
    beam: PositiveInt = 8
    length_normalisation: float = Field(default=0.0, ge=0.0)
    max_length: NonNegativeInt = 500
    max_length_ratio: float = Field(default=3.0, ge=0.0)
    max_length_margin: NonNegativeInt = 20
    copy_unknown: bool = True


class HardwareConfig(Settings):
    """What it runs on.

    Attributes:
        accelerator: ``cpu``, ``gpu``, or ``auto``: a GPU if there is one (with ``training.per_tag`` always the CPU).
        devices: How many processes or GPUs train together on a machine.
        nodes: How many machines train together.
        precision: ``float32``, ``bfloat16`` or ``float16`` (mixed: weights stay float32), or ``float64``;
            ``bfloat16`` needs a GPU or a CPU that has instructions for it, ``float16`` a GPU.
        threads: Threads of each process, for torch and Numba alike; None: one for hidden sizes up to 256, else one a
            core. With ``training.per_tag`` every model is trained in one thread, and this is for the evaluation of all.
        engine: Where independent work is done, which is the models of ``training.per_tag`` and the trainings of a
            sweep: ``local``: in processes of this machine, or ``ray``: on a Ray cluster (``pip install ssnt[ray]``).
        address: Where the Ray cluster is: ``host:port`` of its head, or ``auto``; None: one is started on this
            machine.
        workers: How many processes do independent work, each in one thread; None: one a core.
    """

    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    devices: PositiveInt = 1
    nodes: PositiveInt = 1
    precision: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    threads: PositiveInt | None = None
    engine: EngineName = "local"
    address: str | None = None
    workers: PositiveInt | None = None

    def without_engine(self) -> Self:
        """The same without where independent work is done, which changes nothing about a model."""
        names = ("engine", "address", "workers")
        return self.model_copy(update={name: type(self).model_fields[name].default for name in names})

    def of_a_worker(self) -> Self:
        """What a process of an engine trains a model on: the same wherever that process is."""
        return self.without_engine().model_copy(update={"accelerator": "cpu", "threads": 1})


class Config(Settings):
    """A whole training run.

    Attributes:
        data: Where examples come from.
        batch: How they are put into batches.
        model: What the model is like.
        optimiser: How weights are changed.
        training: How long training goes on.
        validation: How models are chosen.
        search: How the trained model searches.
        hardware: What it runs on.
        out: The model directory to write.
    """

    data: DataConfig = DataConfig()
    batch: BatchConfig = BatchConfig()
    model: ArchitectureConfig = ArchitectureConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    training: TrainingConfig = TrainingConfig()
    validation: ValidationConfig = ValidationConfig()
    search: SearchConfig = SearchConfig()
    hardware: HardwareConfig = HardwareConfig()
    out: str | None = None

    @field_validator("out")
    @classmethod
    def _check_out(cls, out: str | None) -> str | None:
        if out is not None and not out.strip():
            raise ValueError("expected the name of a directory")
        return out

    @model_validator(mode="after")
    def _check_alignment(self) -> Self:
        model = self.model
        if model.has_alignment:
            return self
        if self.search.search != "marginal":
            raise ValueError(
                f"setting 'search.search': expected 'marginal' for model.architecture {model.architecture!r}, which "
                f"has no alignment, got {self.search.search!r}; leave it out, or choose another model "
                f"(--model {'uniSSNT+' if self.search.search == 'online' else 'biSSNT+'})"
            )
        for name in ("fastemit", "delay_weight"):
            if getattr(self.training, name):
                raise ValueError(
                    f"setting 'training.{name}': expected 0 for model.architecture {model.architecture!r}, which has "
                    f"no alignment, got {getattr(self.training, name):g}; leave it out"
                )
        return self

    @model_validator(mode="after")
    def _check_online(self) -> Self:
        if self.search.search == "online" and self.model.bidirectional:
            raise ValueError(
                "setting 'search.search': expected 'marginal' or 'path' for a bidirectional model, got 'online'; "
                f"set model.bidirectional to false{' (--model uniSSNT+)' if self.model.architecture == 'ssnt' else ''}"
            )
        return self
