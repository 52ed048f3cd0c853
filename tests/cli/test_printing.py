"""Nothing that others wrote can steer the terminal."""

import io
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.cli.output import Output, describe_error, escaping_stream, printable, printable_repr, to_json_data
from tests.cli.terminal import Terminal

TEXTS = st.text() | st.text(alphabet="\x1b[31m\x9b\x7f\u202e\u2066\r\n\tab\ud800\U000e0041")
HARMLESS = {"\n", "\t"}


def steers(text):
    """The characters that a terminal, or a reader's eye, would obey instead of show."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}


@given(TEXTS, st.integers(1, 60))
def test_printable_text_is_one_short_line_without_controls(text, limit):
    result = printable(text, limit)
    assert steers(result) == set()
    assert len(result) <= limit


@given(TEXTS)
def test_printable_is_idempotent(text):
    assert printable(printable(text)) == printable(text)


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=100))
def test_plain_text_is_left_alone(text):
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b31m", "\\x9b31m"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x7f\0", "\\x7f\\x00"),
        ("a\u202eb", "a\\u202eb"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("été 世界 🙂", "été 世界 🙂"),
    ],
)
def test_escapes_are_visible(text, result):
    assert printable(text) == result


def test_long_text_is_cut():
    assert printable("x" * 100, 10) == "x" * 9 + "…"
    assert printable("x" * 10, 10) == "x" * 10


def test_text_that_lies_about_itself_is_escaped_all_the_same():
    class Liar(str):
        def isprintable(self):
            return True

        def __str__(self):
            return "\x1b[31m"

        def __getitem__(self, at):
            return self

    assert printable(Liar("\x1b[0m")) == "\\x1b[0m"


def test_an_object_whose_repr_raises_is_named_by_its_type():
    class Mute:
        def __repr__(self):
            raise RuntimeError

        __str__ = __repr__

    class Silent(Exception):
        def __str__(self):
            raise RuntimeError

    assert printable_repr(Mute()) == "<Mute without a repr>"
    assert describe_error(Silent()) == "Silent: (its message can't be shown)"


@given(st.lists(st.binary(max_size=20)))
def test_stray_bytes_come_out_visible_however_they_are_cut(pieces):
    def escaped(parts):
        out = io.StringIO()
        stream = escaping_stream(out)
        for part in parts:
            stream.buffer.write(part)
        return out.getvalue()

    assert steers(escaped(pieces)) <= HARMLESS
    whole = b"".join(pieces)
    assert escaped([whole[at : at + 1] for at in range(len(whole))]) == escaped([whole])


@given(st.lists(TEXTS))
def test_stray_text_comes_out_visible(pieces):
    out = io.StringIO()
    for piece in pieces:
        print(piece, file=escaping_stream(out))
    assert steers(out.getvalue()) <= HARMLESS


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_tables_show_escapes_and_markup_as_text(stream, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    out = stream()
    output = Output(stdout=out, stderr=out)
    output.table(["name"], [["\x1b]0;owned\x07"], ["[bold red]x[/]"], [":boom:"]], title="[link=x]t\x1b[0m")
    output.facts([("\x1b[2J", "\u202e")])
    assert steers(out.getvalue()) <= {"\n"}
    for text in ("\\x1b]0;owned\\x07", "[bold red]x[/]", ":boom:", "[link=x]t\\x1b[0m", "\\x1b[2J", "\\u202e"):
        assert text in out.getvalue()


def test_no_color_is_honoured_and_colour_is_ours_alone(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured, bare = Terminal(), Terminal()
    Output(stdout=coloured, stderr=coloured).table(["a"], [["b"]])
    monkeypatch.setenv("NO_COLOR", "1")
    Output(stdout=bare, stderr=bare).table(["a"], [["b"]])
    assert "\x1b[" in coloured.getvalue()
    # Rich keeps bold without colour; what matters is that no colour is set.
    assert "\x1b[3" not in bare.getvalue()


def test_numbers_stand_on_the_right_in_plain_tables():
    out = io.StringIO()
    Output(stdout=out, stderr=out).table(["name", "steps"], [["a", 5], ["long name", 12345]])
    assert out.getvalue().splitlines() == ["name        steps", "a               5", "long name  12,345"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=8,
)


@given(JSON)
def test_any_value_becomes_one_strict_ascii_document(value):
    out = io.StringIO()
    Output(stdout=out, stderr=out).document(value)
    text = out.getvalue()
    assert text.isascii()
    assert steers(text) <= {"\n"}
    json.loads(text, parse_constant=pytest.fail)


def test_json_keeps_what_json_has_and_shows_the_rest():
    assert to_json_data({"a": (1, 2.5, None, True), 3: float("inf")}) == {"a": [1, 2.5, None, True], "3": "inf"}
    assert to_json_data([object]) == ["<class 'object'>"]


def test_a_stream_that_lacks_a_character_shows_its_code():
    raw = io.BytesIO()
    output = Output(stdout=io.TextIOWrapper(raw, "ascii"), stderr=io.StringIO())
    output.line("été")
    output.flush()
    assert raw.getvalue() == b"\\xe9t\\xe9\n"
