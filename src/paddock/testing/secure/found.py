"""Found: one place that breaks a rule. Many places of the same kind in a file are told once, with their lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from paddock.testing.finding import Finding
from paddock.testing.secure.rules import SECURE_RULE

_MAX_LINES = 5


@dataclass(frozen=True)
class Found:
    """``what`` completes the sentence that begins with the place: ``maze.py:3: uses os.system``."""

    rule: str
    what: str
    line: int | None = None


def findings_in(file: str, found: Iterable[Found], lines: Mapping[int, str]) -> list[Finding]:
    """Findings of one file. A line with ``# paddock: allow SEC007`` is the author's decision: it becomes a note."""
    places: dict[tuple[str, str, bool], set[int]] = {}
    for one in found:
        code = SECURE_RULE[one.rule].code
        allowed = one.line is not None and f"paddock: allow {code}" in lines.get(one.line, "")
        place = places.setdefault((one.rule, one.what, allowed), set())
        if one.line is not None:
            place.add(one.line)
    return [_finding(file, rule, what, at, allowed=allowed) for (rule, what, allowed), at in places.items()]


def finding(rule_name: str, message: str, *, file: str | None = None, line: int | None = None) -> Finding:
    """The finding for a rule, with its words."""
    rule = SECURE_RULE[rule_name]
    return Finding(rule.code, rule.level, rule.name, message, rule.fix, file, line)


def _finding(file: str, rule_name: str, what: str, lines: set[int], *, allowed: bool) -> Finding:
    rule, first = SECURE_RULE[rule_name], min(lines, default=None)
    place = file if first is None else f"{file}:{first}"
    others = [str(line) for line in sorted(lines)[1 : _MAX_LINES + 1]]
    more = f" (also line {', '.join(others)}{', …' if len(lines) > _MAX_LINES + 1 else ''})" if others else ""
    note = ", which the author allows there" if allowed else ""
    level = "note" if allowed else rule.level
    return Finding(rule.code, level, rule.name, f"{place}: {what}{note}.{more}", rule.fix, file, first)
