"""Lanes of simulators: which of them threads step, and what the ALE's own can't do. Told by an id's family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from paddock.errors import PlanError
from paddock.making.target import Target
from paddock.making.wrapper_stack import WrapperLike

if TYPE_CHECKING:
    from paddock.sources.families import Family


def steps_in_threads(target: Target, wrappers: Sequence[WrapperLike], render_mode: str | None) -> bool:
    """Whether threads are the best way for such lanes, without anyone asking for them."""
    family = _family(target)
    if family is None or not family.lets_go:
        return False
    # Pictures are drawn in the thread that first drew one. The caller's is that, unless a wrapper draws in a step.
    return render_mode is None or (render_mode != "human" and not wrappers)


def is_atari(target: Target) -> bool:
    """Whether the ALE has lanes of its own for it."""
    family = _family(target)
    return family is not None and family.name == "Atari"


def check_ale(
    target: Target, wrappers: Sequence[WrapperLike], max_episode_steps: int | None, render_mode: str | None
) -> None:
    """PlanError for what ``backend="ale"`` can't do."""
    if not is_atari(target):
        raise PlanError(f"backend='ale' is for Atari games, as 'ALE/Pong-v5'; {target.text!r} is none. Drop it.")
    if wrappers:
        raise PlanError("backend='ale' steps all lanes in one call, so wrappers of one lane can't be put inside.")
    if render_mode is not None:
        raise PlanError(f"backend='ale' renders nothing: drop render_mode={render_mode!r}, or pass backend='loop'.")
    if max_episode_steps is not None:
        raise PlanError(
            f"backend='ale' counts frames, those before the first step too: in place of max_episode_steps="
            f"{max_episode_steps} pass max_num_frames_per_episode=…"
        )


def _family(target: Target) -> Family | None:
    source = target.module if target.kind == "source" else None
    entry_point = None if target.spec is None else target.spec.entry_point
    if source is None and not (isinstance(entry_point, str) and entry_point.startswith("paddock.sources.")):
        return None
    from paddock.sources.families import family_in_gymnasium

    return family_in_gymnasium(source, target.id, entry_point)
