"""Ids: the parser is total, and format is its inverse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.core.spec import EnvId, check_namespace, parse_id
from paddock.errors import InvalidId

WORD = st.text("abcXYZ019_-.:", min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("CartPole-v1", (None, "CartPole", 1)),
        ("ALE/Pong-v5", ("ALE", "Pong", 5)),
        ("Maze", (None, "Maze", None)),
        ("a-b/c.d:e-v0", ("a-b", "c.d:e", 0)),
        ("Maze-v1x", (None, "Maze-v1x", None)),
    ],
)
def test_an_id_splits_into_its_parts(text, parts):
    assert tuple(parse_id(text)) == parts


@pytest.mark.parametrize(
    "text",
    ["", "-v0/", "a/b/c-v0", "Ca rt-v0", "CartPole-v1\n", "Maze-v01", "Cartpоle-v1", "x" * 300, "/x", "a/", None, 7],
)
def test_anything_else_is_one_clear_error(text):
    with pytest.raises(InvalidId, match="Malformed environment ID"):
        parse_id(text)


def test_a_huge_version_number_is_refused_and_not_computed():
    with pytest.raises(InvalidId):
        parse_id("Maze-v" + "9" * 200)


@given(st.text(max_size=40))
def test_any_text_parses_or_is_refused(text):
    try:
        parts = parse_id(text)
    except InvalidId:
        return
    assert str(parts) == text


@given(st.none() | st.text("abcXYZ019_-", min_size=1, max_size=8), WORD, st.none() | st.integers(0, 10**9 - 1))
def test_parse_undoes_format(namespace, name, version):
    text = str(EnvId(namespace, name, version))
    try:
        parts = parse_id(text)
    except InvalidId:
        assert "-v0" in text or text.split("-v")[-1].isdigit()
        return
    assert str(parts) == text


@pytest.mark.parametrize("text", ["", "a b", "a/b", "é", None])
def test_a_malformed_namespace_is_refused(text):
    with pytest.raises(InvalidId):
        check_namespace(text)
