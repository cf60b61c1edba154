"""Validated settings: a wrong or unknown one is a ConfigError that says what was expected.

=========  =======================================================================================
module     what
=========  =======================================================================================
``base``   what all settings have in common: frozen, strict, errors with the nearest name
``model``  the settings of a model
``run``    the settings of a training run, section by section
``sweep``  the settings of a sweep: a training run, and what is tried in it
``files``  YAML in and out, ``key=value`` overrides, presets
=========  =======================================================================================
"""

from ssnt.config.base import Settings
from ssnt.config.files import (
    PRESETS,
    dump_config,
    flattened,
    load_config,
    merged,
    nested,
    parse_overrides,
    parse_settings,
    preset_path,
    read_settings,
    to_yaml,
    upgraded,
)
from ssnt.config.model import (
    MODEL_NAMES,
    VARIANTS,
    Architecture,
    ArchitectureConfig,
    Attention,
    ModelConfig,
    Transition,
    named_settings,
)
from ssnt.config.run import (
    BatchConfig,
    Config,
    DataConfig,
    DevMetric,
    Format,
    HardwareConfig,
    OptimiserConfig,
    SearchConfig,
    TrainingConfig,
    UnitName,
    ValidationConfig,
)
from ssnt.config.sweep import RangeConfig, SweepConfig, SweepRunConfig, load_sweep_config

__all__ = [
    "MODEL_NAMES",
    "PRESETS",
    "VARIANTS",
    "Architecture",
    "ArchitectureConfig",
    "Attention",
    "BatchConfig",
    "Config",
    "DataConfig",
    "DevMetric",
    "Format",
    "HardwareConfig",
    "ModelConfig",
    "OptimiserConfig",
    "RangeConfig",
    "SearchConfig",
    "Settings",
    "SweepConfig",
    "SweepRunConfig",
    "TrainingConfig",
    "Transition",
    "UnitName",
    "ValidationConfig",
    "dump_config",
    "flattened",
    "load_config",
    "load_sweep_config",
    "merged",
    "named_settings",
    "nested",
    "parse_overrides",
    "parse_settings",
    "preset_path",
    "read_settings",
    "to_yaml",
    "upgraded",
]
