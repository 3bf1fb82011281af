"""The Python blocks of the documents run as they stand, and their links lead somewhere."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks() -> list[tuple[str, str]]:
    """All ```python blocks with a name for the report."""
    found = []
    for document in DOCUMENTS:
        texts = re.findall(r"^```python\n(.*?)^```", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        found += [(f"{document.name}-{k}", text) for k, text in enumerate(texts, start=1)]
    return found


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in blocks()])
def test_block_runs_and_prints_what_it_says(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A comment after a print that begins with a number, a bracket or a quote is the expected output."""
    path = tmp_path / "block.py"
    path.write_text(text, encoding="utf-8")
    runpy.run_path(str(path), run_name="block")
    printed = capsys.readouterr().out
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
