"""The code blocks of the README and of docs/, and the commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = [
    ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md", "results/README.md")
]
SHELL = ("bash", "console", "sh")

_PARTS = re.compile(
    r"<!--(?P<comment>.*?)-->|^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```[ ]*$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """A fenced block. The comment right before it may say why it is `not run`, or what is run `before` it."""

    place: str  # file:line
    language: str
    code: str
    comment: str = ""

    @property
    def skipped(self) -> bool:
        """Whether it is parsed alone."""
        return self.comment.startswith("not run:")

    @property
    def before(self) -> str:
        """Code that makes what the block's code takes for granted."""
        return f"{self.comment.removeprefix('before:')}\n" if self.comment.startswith("before:") else ""

    def commands(self) -> Iterator[list[str]]:
        """The words of each command line, without prompt, comments and variables of the environment.

        Where the block does not say what it is, lines that look like commands.
        """
        for line in self.code.replace("\\\n", " ").splitlines():
            if not self.language and not re.match(r"(\$ )?(dytox|make) [a-z-]", line.strip()):
                continue
            words = shlex.split(line.strip().removeprefix("$ "), comments=True)
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                del words[0]
            if words:
                yield [word for word in words if word != "&"]


def blocks(path: Path) -> list[Block]:
    """All blocks of a page."""
    text = path.read_text(encoding="utf-8")
    found, comment, end = [], "", 0
    for part in _PARTS.finditer(text):
        if part["code"] is None:
            comment, end = part["comment"].strip(), part.end()
            continue
        line = text[: part.start()].count("\n") + 1
        near = comment if not text[end : part.start()].strip() else ""
        found.append(Block(f"{path.relative_to(ROOT)}:{line}", part["language"], part["code"], near))
        comment = ""
    return found


def dytox_arguments(words: list[str]) -> list[str] | None:
    """What follows `dytox` or `-m dytox` in a command; None where it is another program."""
    if words[0] == "dytox":
        return words[1:]
    if words[0] in ("torchrun", "python") and "dytox" in words and words[words.index("dytox") - 1] == "-m":
        return words[words.index("dytox") + 1 :]
    return None


def inline(path: Path) -> list[str]:
    """The code within sentences."""
    text = _PARTS.sub("", path.read_text(encoding="utf-8"))
    return [" ".join(each.split()) for each in re.findall(r"`([^`]+)`", text)]
