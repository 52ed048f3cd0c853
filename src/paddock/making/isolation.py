"""Which wall a target gets: by what the caller asks for, and else by where the code comes from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from paddock.errors import PlanError
from paddock.making.target import Target

if TYPE_CHECKING:
    from paddock.sandbox.policy import Policy

Isolation: TypeAlias = "str | Policy | None"
Tier: TypeAlias = Literal["none", "process", "landlock", "sandbox", "auto", "remote"]

_WALLS = ("sandbox", "landlock", "auto")


def wall_for(target: Target, isolation: Isolation) -> Policy | None:
    """The permissions behind the wall; None where there is none. PlanError for a tier that does not exist."""
    if isolation is None:
        return None if target.folder is None else _asked(target, "sandbox")
    if isolation in ("none", "process"):
        return None
    if isolation in _WALLS:
        return _asked(target, isolation)
    from paddock.sandbox.policy import Policy

    if isinstance(isolation, Policy):
        return isolation
    raise PlanError(
        f"isolation={isolation!r} is not one of 'none', 'process', 'landlock', 'sandbox', 'auto', and no "
        f"paddock.Policy. Use 'sandbox' for code that you do not trust."
    )


def tier_of(isolation: Isolation, wall: Policy | None) -> Tier:
    """The name of the tier."""
    if wall is not None:
        return wall.tier
    return "process" if isolation == "process" else "none"


def _asked(target: Target, tier: str) -> Policy:
    """What a manifest asks for, as far as that is within the default: more than that only the caller can grant.

    What paddock declares for its own environments is granted.
    """
    from paddock.sandbox.policy import DEFAULT

    if target.asked is None:
        return replace(DEFAULT, tier=tier)  # type: ignore[arg-type]
    if target.folder is None:
        return _in_tier(target.asked, tier)
    from paddock.sandbox.difference import exceeds

    beyond = exceeds(target.asked, DEFAULT)
    if beyond:
        raise PlanError(
            f"{target.text!r} asks for more than code gets by default: {'; '.join(beyond)}. Read it with `paddock "
            f"permissions {target.text}`; grant it with isolation=paddock.permissions({target.text!r}), on the "
            f"command line with --grant (run, check, serve), or pass a paddock.Policy(...) of your own."
        )
    return replace(target.asked, tier=tier)  # type: ignore[arg-type]


def _in_tier(policy: Policy, tier: str) -> Policy:
    """With its workspaces: where one wall can't be put up, another can't either."""
    workspace = None if policy.workspace is None else _in_tier(policy.workspace, tier)
    return replace(policy, tier=tier, workspace=workspace)  # type: ignore[arg-type]
