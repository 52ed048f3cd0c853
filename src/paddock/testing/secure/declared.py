"""What a target has declared, for rules that ask for no more than that. Without a manifest it is the default."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from paddock.package.manifest import Manifest
from paddock.sandbox.paths import covers
from paddock.sandbox.policy import DEFAULT, Policy

# There behind every wall: the scratch folder and harmless devices. For reading also what Python itself lies in.
_WRITABLE = ("/tmp", "/dev/null", "/dev/stdout", "/dev/stderr")  # noqa: S108 - the scratch folder inside
_READABLE = (*_WRITABLE, "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/usr/lib", "/usr/share/zoneinfo")


@dataclass(frozen=True)
class Declared:
    """``folder`` is where relative paths of a package begin; None for a module that is no package."""

    policy: Policy = DEFAULT
    deterministic: bool = True
    folder: Path | None = None

    @classmethod
    def by(cls, manifest: Manifest) -> Declared:
        """What the manifest says for all of its environments."""
        return cls(manifest.permissions, all(env.deterministic for env in manifest.envs), manifest.folder)

    def may_write(self, path: str) -> bool:
        """Whether this path, as the source has it, may be written."""
        return self._allows(path, self.policy.write, _WRITABLE)

    def may_read(self, path: str) -> bool:
        """Whether this path, as the source has it, may be read."""
        named = (*self.policy.read, *self.policy.write, *self.policy.programs)
        return self._allows(path, named, _READABLE)

    def may_reach(self, host: str, port: int) -> bool:
        """Whether this host may be reached."""
        return f"{host}:{port}".lower() in self.policy.hosts or f"*:{port}" in self.policy.hosts

    def _allows(self, path: str, named: tuple[str, ...], always: tuple[str, ...]) -> bool:
        if not path.startswith("/"):
            if self.folder is None or path.startswith("~"):
                return False
            path, always = str(self.folder / path), ()  # wherever the package lies now
        return any(covers(one, path.rstrip("/") or "/") for one in (*named, *always))
