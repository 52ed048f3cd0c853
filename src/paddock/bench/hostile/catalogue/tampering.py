"""Attacks on the program around the environment: registry, modules, results, installed packages, specs."""

from __future__ import annotations

from paddock.bench.hostile.catalogue.rows import CONTAINED, DENIED, LIVES, row

TAMPERING = (
    row(
        "T01",
        "registers an impostor",
        "env tampering:Registry",
        "program",
        expected=CONTAINED,
        control="none",
    ),
    row(
        "T02",
        "registers an impostor when imported",
        "module register",
        "program",
        expected=CONTAINED,
    ),
    row("T03", "replaces functions", "env tampering:Modules", "program", expected=LIVES, control="none"),
    row("T04", "changes the surroundings", "env tampering:Surroundings", "program", expected=LIVES, control="none"),
    row("T05", "changes the user's results", "env tampering:Ledger", "program", expected=DENIED, control="none"),
    row("T06", "plants in site-packages", "env tampering:SitePackages", "file", {"name": "$name"}, control_root=True),
    row(
        "T07",
        "plants in paddock's folder",
        "env tampering:OurFiles",
        "file",
        {"name": "$name", "folder": ""},
        control_root=True,
    ),
    row(
        "T08",
        "plants among compiled files",
        "env tampering:OurFiles",
        "file",
        {"name": "$name", "folder": "__pycache__"},
        control_root=True,
    ),
    row("T09", "opens paddock's source for writing", "env tampering:OurSource", "claim", control_root=True),
    row("T10", "rewrites its own source", "module rewrite", "file"),
    row(
        "T11",
        "a spec names os:system",
        "spec os:system",
        "file",
        {"command": "$command"},
        expected=frozenset({"raised", "denied", "exit", "refused", "violation"}),
        calls=(),
    ),
    row(
        "T12",
        "a wrapper by a path into the user's module",
        "modular-wrapper touch",
        "file",
        expected=frozenset({"raised", "refused", "violation", "denied", "contained"}),
        calls=("reset", "step", "close"),
    ),
)
