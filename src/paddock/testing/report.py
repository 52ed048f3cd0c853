"""Findings as JSON and as SARIF 2.1.0, which code hosts show beside the code. Nothing is written here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from paddock import __version__
from paddock.testing.rules import AUDIT_RULES, RULES, SECURE_RULES, Finding

ALL_RULES = (*RULES, *SECURE_RULES, *AUDIT_RULES)
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def to_json(findings: Sequence[Finding], target: str) -> dict[str, Any]:
    """Return the findings of one target, ready for ``json.dumps``; ``ok`` means no errors."""
    return {
        "target": target,
        "ok": all(finding.level != "error" for finding in findings),
        "findings": [asdict(finding) for finding in findings],
    }


def to_sarif(findings: Sequence[Finding], target: str) -> dict[str, Any]:
    """Make a SARIF log with one run, ready for ``json.dumps``. Without a file, the place is only a logical one."""
    rules = [
        {
            "id": rule.code,
            "name": "".join(part.capitalize() for part in rule.name.split("-")),
            "shortDescription": {"text": rule.meaning},
            "help": {"text": rule.fix},
            "defaultConfiguration": {"level": rule.level},
        }
        for rule in ALL_RULES
    ]
    driver = {"name": "paddock", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": [_to_result(finding, target) for finding in findings]}
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _to_result(finding: Finding, target: str) -> dict[str, Any]:
    place: dict[str, Any] = {}
    if finding.file is not None:
        region = {} if finding.line is None else {"region": {"startLine": finding.line}}
        place["physicalLocation"] = {"artifactLocation": {"uri": quote(finding.file)}, **region}
    if finding.file is None or finding.environment is not None:
        place["logicalLocations"] = [{"name": finding.environment or target, "kind": "object"}]
    return {
        "ruleId": finding.code,
        "ruleIndex": next(at for at, rule in enumerate(ALL_RULES) if rule.code == finding.code),
        "level": finding.level,
        "message": {"text": f"{finding.message} {finding.fix}"},
        "locations": [place],
    }
