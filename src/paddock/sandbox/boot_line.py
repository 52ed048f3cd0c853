"""The line of Python that a worker starts with: ``python -I -S -c BOOT <fd>``.

It must not import the real ``paddock`` package: that would load far more than the wall needs before the wall is up.
"""

from __future__ import annotations

from pathlib import Path

BOOT_END = "from paddock.sandbox.inside.boot import main; main()"
HOME = str(Path(__file__).parents[1])  # the folder `paddock` itself


def boot_line(home: str) -> str:
    """The line for a worker that sees the folder ``paddock`` at that path."""
    # Bare packages that know only where their modules are; inside/boot.py takes them away again once the wall is up.
    # sys.path stays Python's own library: what lies beside paddock, in site-packages say, cannot be imported yet.
    return (
        f"import sys; home = {home!r}; M = type(sys); p, s = M('paddock'), M('paddock.sandbox'); "
        "p.__path__, s.__path__ = [home], [home + '/sandbox']; "
        "sys.modules.update({'paddock': p, 'paddock.sandbox': s}); " + BOOT_END
    )


BOOT = boot_line(HOME)
