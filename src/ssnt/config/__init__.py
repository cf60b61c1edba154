"""Validated settings: a wrong or unknown one is a ConfigError that says what was expected.

=========  =======================================================================================
module     what
=========  =======================================================================================
``base``   what all settings have in common: frozen, strict, errors with the nearest name
``model``  the settings of a model
``run``    the settings of a training run, section by section
``files``  YAML in and out, ``key=value`` overrides, presets
=========  =======================================================================================
"""

from ssnt.config.base import Settings
from ssnt.config.files import (
    PRESETS,
    dump_config,
    load_config,
    merged,
    parse_overrides,
    parse_settings,
    preset_path,
    read_settings,
    to_yaml,
)
from ssnt.config.model import VARIANTS, ArchitectureConfig, ModelConfig, Transition
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

__all__ = [
    "PRESETS",
    "VARIANTS",
    "ArchitectureConfig",
    "BatchConfig",
    "Config",
    "DataConfig",
    "DevMetric",
    "Format",
    "HardwareConfig",
    "ModelConfig",
    "OptimiserConfig",
    "SearchConfig",
    "Settings",
    "TrainingConfig",
    "Transition",
    "UnitName",
    "ValidationConfig",
    "dump_config",
    "load_config",
    "merged",
    "parse_overrides",
    "parse_settings",
    "preset_path",
    "read_settings",
    "to_yaml",
]
