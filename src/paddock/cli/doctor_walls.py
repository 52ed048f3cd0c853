"""The doctor's look at walls: what this machine has to build them with, and what each tier therefore promises."""

from __future__ import annotations

from typing import Any

from paddock.cli.output import Output


def examine_walls() -> dict[str, Any]:
    """Facts, and for each tier whether it holds: a worker behind it attacks, here and now."""
    from paddock.sandbox.machine import Machine
    from paddock.sandbox.plan import TIERS
    from paddock.sandbox.policy import DEFAULT
    from paddock.sandbox.view import PythonWorld, view_of

    machine = Machine.here()
    visible = view_of(DEFAULT, PythonWorld.here()) if machine.linux else []
    cgroups = {one.name: f"v{one.version}" for one in machine.cgroups}
    return {
        "machine": {
            "root": machine.root,
            "bubblewrap": ".".join(map(str, machine.bwrap_version)) if machine.bwrap else None,
            "launcher": machine.launcher,
            "namespaces": machine.namespaces,
            "landlock_abi": machine.landlock_abi,
            "seccomp": machine.seccomp,
            "cgroups": cgroups,
            "visible": [one.target for one in visible if one.how == "ro"],
        },
        "tiers": {tier: _tier(tier) for tier in TIERS},
    }


def _tier(tier: str) -> dict[str, Any]:
    from paddock.sandbox.machine import Machine
    from paddock.sandbox.promises import promises
    from paddock.sandbox.self_test import failures

    missing = Machine.here().missing(tier)
    failed = [] if missing else failures(tier)
    kept = [
        {"key": one.key, "promise": one.words, "held": one.held and not failed, "by": list(one.by), "but": one.but}
        for one in promises(tier)
    ]
    return {"holds": not missing and not failed, "missing": missing, "failed": failed, "promises": kept}


def print_walls(report: dict[str, Any], output: Output) -> None:
    """The facts, then one row a promise and a column a tier."""
    machine, tiers = report["machine"], report["tiers"]
    version = machine["bubblewrap"] or "missing: paddock's own launcher is used (apt install bubblewrap)"
    if machine["bubblewrap"] and machine["launcher"] == "native":
        version += "; not used: paddock's own launcher limits the number of files too"
    output.facts(
        [
            ("bubblewrap", version),
            ("namespaces", "yes" if machine["namespaces"] else "no"),
            ("Landlock", f"ABI {machine['landlock_abi']}" if machine["landlock_abi"] else "no"),
            ("seccomp", "yes" if machine["seccomp"] else "no"),
            ("cgroups", ", ".join(f"{name} ({how})" for name, how in machine["cgroups"].items()) or "none writable"),
            *((f"isolation={tier!r}", _standing(one)) for tier, one in tiers.items()),
            ("visible inside", ", ".join(machine["visible"]) or "nothing"),
        ]
    )
    output.line()
    rows = [
        [first["promise"], *(_held(one["promises"][place]) for one in tiers.values())]
        for place, first in enumerate(next(iter(tiers.values()))["promises"])
    ]
    output.table(["behind the wall", *tiers], rows)


def _standing(tier: dict[str, Any]) -> str:
    if tier["missing"]:
        return f"can't be had: needs {'; '.join(tier['missing'])}"
    if tier["failed"]:
        return f"DOES NOT HOLD: {'; '.join(tier['failed'])}"
    return "holds: every attack of the self-test was refused"


def _held(promise: dict[str, Any]) -> str:
    said = f"yes ({', '.join(promise['by'])})" if promise["held"] else "no"
    return f"{said}; {promise['but']}" if promise["but"] else said
