"""Every path that users may have in their imports still leads somewhere: `import_paths.txt` has one in each row.

A module, or `module:name`: the public names of `paddock` and its public packages, all of `paddock.gym`,
`paddock.openenv` with OpenEnv's own tree below `core`, and what the documentation and the examples import. Rows are
added, and removed only as `docs/deprecation.md` allows.
"""

from importlib import import_module
from pathlib import Path

import pytest

PATHS = (Path(__file__).parent / "import_paths.txt").read_text().split()
MODULES = sorted({path.partition(":")[0] for path in PATHS})


@pytest.mark.parametrize("module", MODULES)
def test_every_recorded_path_still_resolves(module):
    import_module(module)
    names = [path.partition(":")[2] for path in PATHS if path.startswith(f"{module}:")]
    gone = [name for name in names if not resolves(module, name)]
    assert gone == []


def resolves(module, name):
    try:
        exec(f"from {module} import {name}", {})
    except ImportError:
        return False
    return True
