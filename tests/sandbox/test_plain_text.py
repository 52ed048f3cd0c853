import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.sandbox.plain_text import drives_terminal, shorten, strip_escapes

DRIVING = "\x1b[]PX^_\\0;9m\x07\x9b\x9c\x9d\x90\r\x08\x00\u202e\u2066ab\n\t "


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("", ""),
        ("plain äöü 漢字 🙂\n\tas it is", "plain äöü 漢字 🙂\n\tas it is"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r0m\x1b\\text", "text"),
        ("\x9d0;title\x9ctext", "text"),
        ("\x1b_apc\x1b\\text", "text"),
        ("\x1b]never ends", "never ends"),
        ("\x1b", ""),
        ("\x1b[", ""),
        ("\x1b\x1b[0m[31mx", "[31mx"),
        ("\x1bcreset", "reset"),
        ("\x1b(0x", "x"),
        ("over\rwritten\x08\x7f\x00", "overwritten"),
        ("a\u202eb\u2066c\u202a\u2069", "abc"),
        ("half \ud800", "half "),
        ("a\u200eb\u200fc\u061cd\u2028e\u2029f", "abcdef"),
    ],
)
def test_what_drives_a_terminal_is_taken_out(text, left):
    assert strip_escapes(text) == left


def test_colours_may_stay_and_nothing_else():
    assert strip_escapes("\x1b[1;31mred\x1b[0m\x1b[m\x1b[2J\x1b[3A\x1b[38:2:1:2:3mx", colours=True) == (
        "\x1b[1;31mred\x1b[0m\x1b[m\x1b[38:2:1:2:3mx"
    )
    assert strip_escapes("\x1b[3\x0031mx", colours=True) == "331mx"
    assert strip_escapes("\x1b[" + "1;" * 40 + "mx", colours=True) == "x"


@given(st.text(DRIVING, max_size=40))
def test_nothing_that_drives_a_terminal_is_left(text):
    left = strip_escapes(text)
    assert strip_escapes(left) == left
    assert not set(left) & set("\x1b\x9b\x9c\x9d\x90\x07\r\x08\x00\u202e\u2066")
    kept = strip_escapes(text, colours=True)
    assert strip_escapes(kept, colours=True) == kept
    assert strip_escapes(kept).replace("\x1b", "") == strip_escapes(kept)


def test_a_long_text_of_openings_takes_no_longer_than_its_length():
    for opening in ("\x1b]", "\x9d", "\x1b[", "\x1b ", "\x9b1"):
        assert "\x1b" not in strip_escapes(opening * 200_000)


def test_characters_that_a_space_may_not_declare():
    assert drives_terminal("abc\t\n\r\x0b\x0c") is None
    assert drives_terminal("ab\x1bc") == "\x1b"


def test_brief_text_is_short_and_plain():
    assert shorten("a\x1b[2Jb", 10) == "ab"
    assert shorten("x" * 100, 10) == "x" * 9 + "…"
