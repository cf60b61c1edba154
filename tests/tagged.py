"""Data with tags, and what the user sees while a model is trained for each tag set."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from ssnt.training.display import Display
from trainings import words

RULES = {"UP": str.upper, "TWICE": lambda word: word + word, "ADD": lambda word: word + "n"}


def write_tagged(path: Path, counts: Mapping[str, int], seed: int) -> str:
    """Words with forms by their tags, of which the order differs from line to line."""
    generator = random.Random(seed)
    rows = []
    for tag, count in counts.items():
        for word in words(count, seed, "abc"):
            tags = ["V", tag]
            generator.shuffle(tags)
            rows.append(f"{word}\t{RULES.get(tag, str)(word)}\t{';'.join(tags)}\n")
    generator.shuffle(rows)
    path.write_text("".join(rows), encoding="utf-8")
    return str(path)


class Notes(Display):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.parts: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def show_part(self, overall: str, text: str, *, is_done: bool) -> None:
        if is_done:
            self.parts.append(f"{overall} {text}")
