"""Problems about texts."""

from __future__ import annotations

from itertools import groupby

from paddock.agentic.envs.coding.family import Arguments, Draws, Family, each

_WORDS = ("the", "sea", "red", "Ant", "hill", "oak", "Moon", "tin", "ape", "river", "stone", "Elm", "sky", "iron")
_BOTH = ("Chester", "Florence", "Lima", "Sydney")  # a name as well as a city


def _shifted(text: str, *, shift: int) -> str:
    found = ""
    for letter in text:
        if "a" <= letter <= "z":
            letter = chr((ord(letter) - ord("a") + shift) % 26 + ord("a"))
        elif "A" <= letter <= "Z":
            letter = chr((ord(letter) - ord("A") + shift) % 26 + ord("A"))
        found += letter
    return found


def _shortened(text: str, *, least: int, order: str) -> str:
    found = ""
    for letter, run in groupby(text):
        count = len(list(run))
        if count < least:
            found += letter * count
        else:
            found += f"{count}{letter}" if order == "the count, then the letter" else f"{letter}{count}"
    return found


def _top_words(text: str, *, count: int, order: str) -> list[str]:
    words = text.lower().split()
    often = 1 if order == "rarest" else -1
    return sorted(set(words), key=lambda word: (often * words.count(word), word))[:count]


def _wrapped(text: str, *, width: int) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines


def _first_unmatched(text: str, *, pairs: str) -> int:
    opening, closing = pairs[::2], pairs[1::2]
    waiting: list[tuple[int, str]] = []
    for at, sign in enumerate(text):
        if sign in opening:
            waiting.append((at, closing[opening.index(sign)]))
        elif sign in closing and (not waiting or waiting.pop()[1] != sign):
            return at
    return waiting[0][0] if waiting else -1


def _turned_words(text: str, *, divisor: int) -> str:
    return " ".join(word[::-1] if len(word) % divisor == 0 else word for word in text.split(" "))


def _distance(one: str, other: str, *, insert: int, delete: int, replace: int) -> int:
    row = [at * insert for at in range(len(other) + 1)]
    for down, letter in enumerate(one, 1):
        above, row = row, [down * delete]
        for at, wanted in enumerate(other, 1):
            kept = above[at - 1] + (0 if letter == wanted else replace)
            row.append(min(kept, above[at] + delete, row[at - 1] + insert))
    return row[-1]


def _table_query(table: str, key: str, *, column: str, result: str) -> int:
    rows = [line.split(",") for line in table.split("\n") if line]
    amounts = [int(row[1]) for row in rows if row[0 if column == "name" else 2] == key]
    if result == "number of rows":
        return len(amounts)
    if result == "largest amount":
        return max(amounts, default=0)
    return sum(amounts) if result == "sum of the amounts" else sum(amounts) - min(amounts, default=0)


def _sentence(draws: Draws, words: int) -> str:
    return " ".join(draws.one_of(_WORDS) for _ in range(words))


def _of(draws: Draws, letters: str, least: int, most: int) -> str:
    return "".join(draws.one_of(letters) for _ in range(draws.number(least, most)))


def _table(draws: Draws) -> Arguments:
    rows = [f"{draws.one_of(_BOTH)},{draws.number(-50, 200)},{draws.one_of(_BOTH)}" for _ in range(draws.number(3, 12))]
    return "\n".join(rows), draws.one_of(_BOTH)


FAMILIES = (
    Family(
        "shifted",
        "text: str) -> str",
        "Move every letter a-z and A-Z of the text by {shift} places in the alphabet, round from its end to its "
        "beginning (or back), and leave everything else as it is. Return the new text.",
        each(shift=(-11, -9, -4, -1, 2, 3, 5, 7, 10, 13, 19, 25)),
        _shifted,
        lambda draws: (_sentence(draws, 4) + draws.one_of(("!", "?", " 42")),),
        edges=(("",), ("xyz ABC",), ("Ünder-1",)),
    ),
    Family(
        "shortened",
        "text: str) -> str",
        "Replace every run of {least} or more equal letters by its length and letter ({order}), and leave shorter runs "
        "as they are. The text has letters only. Return the new text.",
        each(least=(1, 2, 3, 4), order=("the count, then the letter", "the letter, then the count")),
        _shortened,
        lambda draws: ("".join(draws.one_of("abX") * draws.number(1, 12) for _ in range(draws.number(2, 8))),),
        edges=(("",), ("a",), ("aaaabbbcca",)),
    ),
    Family(
        "top_words",
        "text: str) -> list[str]",
        "The text has words with spaces between them; upper and lower case make no difference. Return the {count} "
        "{order} words in lower case, in that order, those that occur equally often by the alphabet. If there are "
        "fewer different words, return all of them.",
        each(count=(1, 2, 3, 4, 5), order=("most frequent", "rarest")),
        _top_words,
        lambda draws: (_sentence(draws, draws.number(8, 24)),),
        edges=(("",), ("Sea sea SEA",), ("b a",)),
    ),
    Family(
        "wrapped",
        "text: str) -> list[str]",
        "Break the text into lines of at most {width} characters: put as many words on each line as fit, with one "
        "space between two. A word that is longer than that stands on a line alone. Return the lines.",
        each(width=(3, 5, 8, 10, 13, 16, 20)),
        _wrapped,
        lambda draws: (_sentence(draws, draws.number(4, 16)),),
        edges=(("",), ("extraordinarily",), ("a b c d e f",)),
    ),
    Family(
        "first_unmatched",
        "text: str) -> int",
        "In the text, the brackets {pairs} (each opening one is followed by the one that closes it) must be nested "
        "properly; other characters do not count. Return the index of the first closing bracket that does not close "
        "the bracket opened last; if there is none, the index of the first bracket that is never closed; if there is "
        "none either, -1.",
        each(pairs=("()", "[]", "<>", "()[]", "()<>", "[]{}", "()[]{}", "()<>{}")),
        _first_unmatched,
        lambda draws: (_of(draws, "()()[]{}<>ab", 4, 14),),
        edges=(("",), ("()[]{}<>",), ("((",), ("([)]",), ("a)",)),
    ),
    Family(
        "turned_words",
        "text: str) -> str",
        "The text has words with one space between two. Write every word whose length is divisible by {divisor} "
        "backwards, and return the new text.",
        each(divisor=(1, 2, 3, 4, 5)),
        _turned_words,
        lambda draws: (_sentence(draws, draws.number(3, 9)) + " " + _of(draws, "abcde", 3, 10),),
        edges=(("",), ("ab abc abcd abcde abcdef",)),
    ),
    Family(
        "distance",
        "one: str, other: str) -> int",
        "Turn the first text into the second by changes of single letters: inserting one costs {insert}, deleting one "
        "{delete}, replacing one by another {replace}. Return the lowest cost. Both have at most 12 letters.",
        [
            {"insert": insert, "delete": delete, "replace": replace}
            for insert, delete, replace in (
                (1, 1, 1),
                (1, 1, 2),
                (2, 1, 1),
                (1, 2, 2),
                (3, 2, 4),
                (2, 3, 1),
                (1, 3, 2),
                (2, 2, 3),
            )
        ],
        _distance,
        lambda draws: (_of(draws, "abc", 1, 12), _of(draws, "abc", 1, 12)),
        edges=(("", ""), ("", "abc"), ("abc", "")),
    ),
    Family(
        "table_query",
        "table: str, key: str) -> int",
        "Each line of the table is 'name,amount,city', the amount a whole number. Look at the rows whose {column} is "
        "the key and return the {result} (0 if there are no such rows).",
        each(
            column=("name", "city"),
            result=("number of rows", "largest amount", "sum of the amounts", "sum of all amounts but the smallest"),
        ),
        _table_query,
        _table,
        edges=(("", "Lima"), ("Lima,-5,Chester", "Lima"), ("Lima,-5,Sydney\nLima,-7,Sydney", "Sydney")),
    ),
)
