"""Attacks by importing: the hostile code lies outside paddock, and runs as soon as anybody imports it."""

from __future__ import annotations

from paddock.bench.hostile.catalogue.rows import CONTAINED, LATE, row

IMPORTS = (
    row("I01", "leaves a file when imported", "module touch", "file", needs="files-kept"),
    row("I02", "reads a secret when imported", "module read", "secret", needs="files-hidden"),
    row("I03", "reads the file beside it", "module read_beside", "secret", needs="files-hidden"),
    row("I04", "connects when imported", "module connect", "listener", needs="no-network"),
    row("I05", "starts a shell when imported", "module start", "file", needs="no-programs"),
    row("I06", "leaves a daemon when imported", "module daemon", "left", needs="no-processes"),
    row(
        "I07",
        "poisons the modules of its importer",
        "module poison",
        "program",
        expected=CONTAINED,
        control="none",
        needs="own-process",
    ),
    row("I08", "plants a .pth file", "module plant", "file", needs="files-kept"),
    row(
        "I09",
        "brings sitecustomize.py along",
        "module nothing",
        "file",
        beside=("sitecustomize.py", "usercustomize.py"),
        expected=CONTAINED,
        needs="files-kept",
    ),
    row(
        "I10",
        "brings json.py and conftest.py along",
        "module nothing",
        "file",
        beside=("json.py", "numpy.py", "msgspec.py", "conftest.py", "setup.py"),
        expected=CONTAINED,
        needs="files-kept",
    ),
    row(
        "I11",
        "sleeps when imported",
        "module sleep",
        "caller",
        expected=LATE,
        policy={"start_s": 2.0},
        calls=(),
        needs="deadlines-kept",
    ),
    row(
        "I12",
        "exits when imported",
        "module exit",
        "caller",
        expected=frozenset({"exit"}),
        control="none",
        needs="own-process",
    ),
    row(
        "I13", "is imported by the trusted side", "module nothing", "program", expected=CONTAINED, needs="not-imported"
    ),
)
