"""Names that a package has at once, and whose modules are imported when they are first asked for.

torch and Lightning take seconds to import, and are not there at all beside an exported model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]], parts: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's ``__getattr__`` and ``__dir__``.

    Args:
        package: Its name.
        homes: The names by the module that has them, such as ``.stream`` or ``ssnt.types``.
        parts: Modules of the package that are found as its attributes before anyone has imported them.

    Returns:
        ``__getattr__``, which finds these names, and ``__dir__``, which tells those of ``__all__``.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name in parts:
            return import_module(f".{name}", package)
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name], package), name)
        setattr(sys.modules[package], name, value)  # asked for once
        return value

    def told() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return find, told
