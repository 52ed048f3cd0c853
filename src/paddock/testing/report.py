"""Findings as JSON and as SARIF 2.1.0, the form that code hosts show beside the code. Pure: nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from paddock import __version__
from paddock.testing.finding import Finding
from paddock.testing.rules import RULES, Rule
from paddock.testing.secure.rules import SECURE_RULES

ALL_RULES = (*RULES, *SECURE_RULES)
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def to_json(findings: Sequence[Finding], target: str) -> dict[str, Any]:
    """The findings of one target, ready for ``json.dumps``; ``ok`` means no errors."""
    return {
        "target": target,
        "ok": all(finding.level != "error" for finding in findings),
        "findings": [asdict(finding) for finding in findings],
    }


def to_sarif(findings: Sequence[Finding], target: str) -> dict[str, Any]:
    """A SARIF log with one run, ready for ``json.dumps``. Where no file is known, the place is only a logical one."""
    driver = {"name": "paddock", "version": __version__, "rules": [_sarif_rule(rule) for rule in ALL_RULES]}
    run = {"tool": {"driver": driver}, "results": [_sarif_result(finding, target) for finding in findings]}
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": rule.meaning},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": rule.level},
    }


def _sarif_result(finding: Finding, target: str) -> dict[str, Any]:
    index = next(i for i, rule in enumerate(ALL_RULES) if rule.code == finding.code)
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": finding.level,
        "message": {"text": f"{finding.message} {finding.fix}"},
        "locations": [_sarif_place(finding, target)],
    }


def _sarif_place(finding: Finding, target: str) -> dict[str, Any]:
    place: dict[str, Any] = {}
    if finding.file is not None:
        region = {} if finding.line is None else {"region": {"startLine": finding.line}}
        place["physicalLocation"] = {"artifactLocation": {"uri": quote(finding.file)}, **region}
    if finding.file is None or finding.environment is not None:
        place["logicalLocations"] = [{"name": finding.environment or target, "kind": "object"}]
    return place
