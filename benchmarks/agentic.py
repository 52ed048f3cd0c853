"""What agentic environments cost: a tool call over the wire next to OpenEnv's, and many rollouts at once.

    python benchmarks/agentic.py [--quick]

Each part is a module with a ``measure(table, rounds=…, seconds=…)``.
"""

from __future__ import annotations

import os
import sys

import _agentic_rollouts
import _agentic_wire
from _timing import Table

PARTS = (_agentic_wire, _agentic_rollouts)


def main():
    quick = "--quick" in sys.argv
    table = Table(f"Over TCP on this machine, {os.cpu_count()} cores; peer: OpenEnv 0.10")
    for part in PARTS:
        part.measure(table, rounds=5 if quick else 15, seconds=0.3 if quick else 0.6)
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
