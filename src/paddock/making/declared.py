"""What paddock declares that its own environments may do. Nobody has to grant it: the code is paddock's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.core.registry import registry
from paddock.core.spec import EnvSpec
from paddock.envs.catalog import PERMISSIONS
from paddock.making.entry_point import load

if TYPE_CHECKING:
    from paddock.sandbox.policy import Policy


def declared(spec: EnvSpec) -> Policy | None:
    """None where paddock declares nothing, and for everybody else's code, whatever id its spec has."""
    text = PERMISSIONS.get(spec.id)
    if text is None or not registry.is_protected(spec.id) or spec.entry_point != registry[spec.id].entry_point:
        return None
    if any(not one.entry_point.startswith("paddock.wrappers.") for one in spec.additional_wrappers):
        return None  # they run in the same worker
    policy: Policy = load(text)()
    return policy
