"""Plain English: names are verbs or nouns, and texts avoid phrases that need a second reading."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "paddock"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])

# A participle hides whether something is computed, changed or waited for.
NO_NAMES = {"told", "shown", "seen", "asked", "given", "taken", "kept", "held", "said", "nobody"}
ODD = re.compile(
    r"""\banew\b
      | (?<!there\ )\b(?:is|are)\ no\ (?!longer\b|more\b|such\b)   # "is not a …"
      | \bwho(?:ever)?\ [^.]{0,60}\bis\ told\b                    # "you get …", "anyone who … gets …"
      | \b(?:one|row|frame|line|value)\ an?\ (?:lane|step|worker|line|task|attack)\b   # "one per lane"
      """,
    re.VERBOSE | re.IGNORECASE,
)
# Recorded in golden traces, so it can't change.
RECORDED = {"agentic/envs/wordle.py"}


def odd_names(text: str) -> list[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = (node.name for node in ast.walk(ast.parse(text)) if isinstance(node, kinds))
    return [name for name in names if name.strip("_").lower() in NO_NAMES]


def texts_of(text: str) -> Iterator[str]:
    """Every string of a module, docstrings included, and its comments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
    yield from re.findall(r"# .*", text)


def odd_phrases(texts: Iterator[str] | list[str]) -> list[str]:
    return [found[0] for text in texts for found in ODD.finditer(" ".join(text.split()))]


@pytest.mark.parametrize("package", sorted({path.name for path in SOURCE.iterdir() if path.name != "__pycache__"}))
def test_names_and_texts_of_the_source_are_plain(package):
    place = SOURCE / package
    found = {}
    for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        name, text = path.relative_to(SOURCE).as_posix(), path.read_text() if path.suffix == ".py" else ""
        if name not in RECORDED and (odd := odd_names(text) + odd_phrases(texts_of(text))):
            found[name] = odd
    assert found == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_of_a_page_are_plain(page):
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert odd_phrases([prose]) == []


@pytest.mark.parametrize(
    "text",
    [
        "'x' is no absolute path.",
        "The lane begins anew.",
        "who asks for one that is missing is told which there are",
        "an array with one row a lane",
    ],
)
def test_planted_phrase_is_caught(text):
    assert odd_phrases([text])


@pytest.mark.parametrize("text", ["There is no such session.", "It is no longer valid.", "one row per lane", "a lane"])
def test_plain_phrase_passes(text):
    assert not odd_phrases([text])


def test_planted_name_is_caught():
    assert odd_names("def _told(x): ...\nclass Shown: ...\ndef tell(x): ...") == ["_told", "Shown"]
