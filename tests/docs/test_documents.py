"""The Python blocks of the documents run as they stand, and their links lead somewhere."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


def blocks() -> list[Any]:
    """All ```python blocks, each with the ```text block that follows it at once: what it prints."""
    return [
        pytest.param(*match.groups(default=""), id=f"{document.name}-{k}")
        for document in DOCUMENTS
        for k, match in enumerate(BLOCK.finditer(document.read_text(encoding="utf-8")), start=1)
    ]


@pytest.mark.parametrize(("text", "output"), blocks())
def test_block_runs_and_prints_what_it_says(
    text: str, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A comment after a print that begins with a number, a bracket or a quote is expected output too."""
    path = tmp_path / "example.py"
    path.write_text(text, encoding="utf-8")
    runpy.run_path(str(path), run_name="block")
    printed = capsys.readouterr().out
    assert output in printed
    for expected in re.findall(r"^print\(.*\)  # ([-\d(\['\"].*)$", text, re.MULTILINE):
        assert expected in printed


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_readme_names_the_two_commands_that_ci_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^```sh\n(pip install .*)\n```$", text, re.MULTILINE)
    assert len(commands) == 2
