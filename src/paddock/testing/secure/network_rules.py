"""Rules on the network: every host declared, every call with a timeout."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from paddock.testing.secure.declared import Declared
from paddock.testing.secure.found import Found
from paddock.testing.secure.tables import NETWORK, TIMED, TIMEOUTS, entry_for
from paddock.testing.secure.uses import Use

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}


def network(uses: Iterable[Use], declared: Declared) -> Iterator[Found]:
    """Uses of the network without any declared host, and addresses that are not among the declared ones."""
    for use in uses:
        entry = entry_for(use.name, NETWORK)
        if entry is None:
            continue
        if not declared.policy.hosts:
            yield Found("undeclared-network", f"uses {entry} and declares no hosts", use.line)
        elif use.call is not None:
            for host, port in filter(None, map(_address, use.call.args)):
                if not declared.may_reach(host, port):
                    yield Found("undeclared-network", f"reaches {host}:{port}, which hosts does not name", use.line)


def timeouts(uses: Iterable[Use]) -> Iterator[Found]:
    """Calls that may wait for ever."""
    for use in uses:
        if use.call is None:
            continue
        given = [word.value for word in use.call.keywords if word.arg == "timeout"]
        spread = any(word.arg is None for word in use.call.keywords)
        at = TIMEOUTS.get(use.name, -1)
        if not given and at is not None and 0 <= at < len(use.call.args):
            given = [use.call.args[at]]
        endless = any(isinstance(one, ast.Constant) and one.value is None for one in given)
        if endless and (use.name in TIMEOUTS or entry_for(use.name, TIMED)):
            yield Found("no-timeout", f"calls {use.name} with timeout=None", use.line)
        elif use.name in TIMEOUTS and not given and not spread:
            yield Found("no-timeout", f"calls {use.name} without a timeout", use.line)


def _address(node: ast.expr) -> tuple[str, int] | None:
    """Host and port of a literal URL, or of a literal ('host', port)."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0] if isinstance(node.values[0], ast.Constant) else node
    if isinstance(node, ast.Tuple) and len(node.elts) == 2:
        host, port = (one.value if isinstance(one, ast.Constant) else None for one in node.elts)
        return (host, port) if isinstance(host, str) and isinstance(port, int) else None
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or "://" not in node.value:
        return None
    try:
        parts = urlsplit(node.value)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    return (parts.hostname, port) if parts.hostname and port else None
