"""Secrets in plain sight: texts of the forms that services give out, and literals assigned to telling names.

A finding says what kind of secret stands where, and never the secret: reports are kept and shown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from paddock.testing.secure.found import Found

_FORMS = {
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50})"),
    "an API key": re.compile(r"\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{20}"),
    "a Hugging Face token": re.compile(r"\bhf_[A-Za-z0-9]{30}"),
    "a Google key": re.compile(r"\bAIza[0-9A-Za-z_-]{35}"),
    "a Slack token": re.compile(r"\bxox[abprs]-[0-9A-Za-z-]{10}"),
    "a private key": re.compile(r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----"),
    "a password in a URL": re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^/\s:@]{1,100}:[^/\s:@]{3,100}@"),
}
_TELLING = re.compile(r"(?:^|_)(?:password|passwd|secret|api_?key|access_?key|auth_?token|token|private_?key)$", re.I)
_PLACEHOLDER = re.compile(r"^$|^[<{$%]|example|your|xxx|changeme|placeholder|dummy|test|todo|none|\s", re.I)
_SHORTEST = 8


def secrets(nodes: Iterable[ast.AST]) -> Iterator[Found]:
    """Secrets in a file's texts."""
    for node in nodes:
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and (kind := form_of(text)) is not None:
            yield Found("secret-in-source", f"holds {kind}", node.lineno)  # type: ignore[attr-defined]
        for name, value in _named(node):
            if _telling(name, value):
                yield Found("secret-in-source", f"holds the value of {name}", value.lineno)


def secrets_among(variables: Mapping[str, str]) -> Iterator[str]:
    """Names of the variables whose values look like secrets."""
    for name, value in variables.items():
        if form_of(value) is not None or (_TELLING.search(name) and _is_secret(value)):
            yield name


def form_of(text: str) -> str | None:
    """The kind of secret that the text holds, by its form."""
    return next((kind for kind, form in _FORMS.items() if form.search(text)), None)


def _telling(name: str, value: ast.expr) -> bool:
    text = value.value if isinstance(value, ast.Constant) else None
    return isinstance(text, str) and bool(_TELLING.search(name)) and _is_secret(text)


def _is_secret(text: str) -> bool:
    varied = len(set(text)) > 4 and (any(map(str.isdigit, text)) or any(not c.isalnum() for c in text))
    return len(text) >= _SHORTEST and varied and not _PLACEHOLDER.search(text) and form_of(text) is None


def _named(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names and what is given to them: assignments, keywords, entries of dicts, defaults are left out."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, (ast.Name, ast.Attribute)):
                yield (target.id if isinstance(target, ast.Name) else target.attr), node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value
    elif isinstance(node, ast.keyword) and node.arg is not None:
        yield node.arg, node.value
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value
