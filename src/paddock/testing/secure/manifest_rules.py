"""Rules on what a manifest asks for: too broad, or more than the source seems to use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from paddock.package.manifest import Manifest
from paddock.sandbox.paths import covers
from paddock.sandbox.policy import DEFAULT, Policy
from paddock.testing.secure.found import Found
from paddock.testing.secure.secret_rules import secrets_among
from paddock.testing.secure.tables import NETWORK, PROCESSES, VARIABLES, entry_for

# Names of functions and methods that open files, whatever they belong to.
_FILES = frozenset(
    {
        *("open", "read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "listdir", "scandir", "glob"),
        *("walk", "connect", "load", "loadtxt", "save", "savez", "savetxt", "memmap", "read_csv", "imread"),
        "from_pretrained",
    }
)
# A grant of one of these, or of what holds it, is a grant of far more than an environment needs.
_SYSTEM = ("/dev", "/var", "/home", "/Users", "/usr", "/bin", "/lib", "/opt", "/srv", "/mnt")
# Here even a part is.
_OWN = ("/etc", "/proc", "/sys", "/run", "/var/run", "/root", "/boot")


def broad(manifest: Manifest) -> Iterator[Found]:
    """Permissions that say little; a workspace's too."""
    code = {path for env in manifest.envs for path in manifest.modules(env.spec.id).values()}
    for place, policy in _each(manifest.permissions, "permissions"):
        for host in policy.hosts:
            if host.startswith("*:"):
                yield Found("permission-broad", f"{place}: hosts has {host!r}, which is every host")
        for field in ("read", "write"):
            for path in getattr(policy, field):
                if _is_system(path):
                    yield Found("permission-broad", f"{place}: {field} has {path!r}, the system's or a user's own")
        for path in policy.write:
            if any(covers(path, str(one)) or covers(str(one), path) for one in code):
                yield Found("permission-broad", f"{place}: write has {path!r}, where its own code lies")
        if policy.devices:
            yield Found("permission-broad", f"{place}: devices weaken the wall for {', '.join(policy.devices)}")
        if policy.tier != DEFAULT.tier:
            yield Found(
                "permission-broad", f"{place}: tier = {policy.tier!r} is a weaker wall; who runs it decides that"
            )


def secret_variables(manifest: Manifest) -> Iterator[Found]:
    """Secrets in the manifest itself."""
    for place, policy in _each(manifest.permissions, "permissions"):
        for name in secrets_among(policy.variables):
            yield Found("secret-in-source", f"{place}: variables holds the value of {name}")


def unused(manifest: Manifest, names: Iterable[str]) -> Iterator[Found]:
    """Permissions that none of the names which the source uses needs."""
    policy, used = manifest.permissions, set(names)
    last = {name.rpartition(".")[2] for name in used}
    if policy.hosts and not any(entry_for(name, NETWORK) for name in used):
        yield Found("permission-unused", "permissions: hosts, but nothing here uses the network")
    if policy.variables and not any(entry_for(name, VARIABLES) for name in used):
        yield Found("permission-unused", "permissions: variables, but nothing here reads any")
    if policy.workspaces and not any("workspace" in name for name in last):
        yield Found("permission-unused", "permissions: workspaces, but nothing here asks for one")
    if (policy.programs or policy.processes > 1) and not any(entry_for(name, PROCESSES) for name in used):
        yield Found("permission-unused", "permissions: programs or processes, but nothing here starts one")
    if (policy.write or policy.read) and not last & _FILES:
        yield Found("permission-unused", "permissions: read or write, but nothing here opens a file")


def _each(policy: Policy, place: str) -> Iterator[tuple[str, Policy]]:
    yield place, policy
    if policy.workspace is not None:
        yield from _each(policy.workspace, f"{place}.workspace")


def _is_system(path: str) -> bool:
    return any(covers(path, one) for one in _SYSTEM) or any(covers(one, path) for one in _OWN) or _is_home(path)


def _is_home(path: str) -> bool:
    parts = Path(path).parts
    return path == str(Path.home()) or (len(parts) == 3 and parts[1] in ("home", "Users"))
