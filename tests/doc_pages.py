"""The pages of the documentation, with their blocks and commands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]*)(?P<rest>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
SHELLS = {"", "bash", "console", "sh", "shell"}
LANGUAGES = {*SHELLS, "python", "text", "yaml", "json"}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file that it is to be written to, its text, and the line where it begins."""

    language: str
    title: str | None
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """A command of a page, and what the page shows of its output."""

    text: str
    shown: tuple[str, ...]

    @property
    def complaints(self) -> list[str]:
        """The lines about errors and warnings, which have to come as they are shown."""
        return [line for line in self.shown if re.search(r": (error|warning): ", line)]

    @property
    def exit_code(self) -> int:
        """2 after an error of a command, 1 if it went on after it or after errors in data, else 0."""
        if any(line.endswith("lines could not be used") for line in self.shown):
            return 1
        if any(line.startswith("ssnt: error: ") for line in self.shown):
            return 2
        return 1 if any(": error: " in line for line in self.shown) else 0


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', match["rest"])
        lines = [line.removeprefix(match["indent"]) for line in match["text"].splitlines()]
        body = "".join(f"{line}\n" for line in lines)
        found.append(Block(match["language"], title and title[1], body, text.count("\n", 0, match.start()) + 1))
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a block; without prompts, every line is one."""
    if block.title is not None or block.language not in SHELLS:
        return []
    if block.language != "console":
        lines = [line.partition(" #")[0].strip() for line in block.text.splitlines()]
        return [Command(line, ()) for line in lines if line]
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
        else:
            found[-1][1].append(line)
    return [Command(text, tuple(shown)) for text, shown in found]
