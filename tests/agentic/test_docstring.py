"""Docstrings in Google's style: what a model is told of a tool."""

import pytest

from paddock.agentic.tools import read_docstring


def test_text_and_arguments():
    told = read_docstring(
        """Search the archive.

        Only the newest volumes are indexed.

        Args:
            query: what to look for,
                in plain words.
            limit (int, optional): how many: at most 9.
            deep:
                whether to go on
                after the first.

        Returns:
            A list of titles.

        Raises:
            ValueError: never.
        """
    )
    assert told.text == "Search the archive.\n\nOnly the newest volumes are indexed."
    assert told.arguments == {
        "query": "what to look for, in plain words.",
        "limit": "how many: at most 9.",
        "deep": "whether to go on after the first.",
    }


@pytest.mark.parametrize("head", ["Args", "Arguments", "Parameters", "args"])
def test_the_section_has_several_names(head):
    assert read_docstring(f"Do.\n\n{head}:\n  x: a thing.").arguments == {"x": "a thing."}


@pytest.mark.parametrize("nothing", [None, "", "   \n  "])
def test_no_docstring_says_nothing(nothing):
    assert read_docstring(nothing) == ("", {})


def test_a_colon_in_the_text_begins_no_section():
    told = read_docstring("Reply with: yes or no.\n\nWarning: slow.")
    assert told.text == "Reply with: yes or no.\n\nWarning: slow." and told.arguments == {}


def test_an_empty_section_of_arguments_has_none():
    assert read_docstring("Do.\n\nArgs:\n\nReturns:\n    x: not an argument.").arguments == {}
