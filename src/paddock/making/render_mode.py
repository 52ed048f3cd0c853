"""Which render mode an environment gets, and which wrapper supplies the mode that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from paddock.core.warning import warn_user


def negotiate(asked: str | None, offered: Sequence[str]) -> tuple[str | None, Callable[[Any], Any] | None]:
    """The mode to construct the environment with, and what to wrap around it to show the mode asked for."""
    if asked is None or asked in offered:
        return asked, None
    from paddock.wrappers.rendering import HumanRendering, RenderCollection

    frames = next((mode for mode in ("rgb_array", "rgb_array_list") if mode in offered), None)
    if asked == "human" and frames is not None:
        warn_user(
            "You are trying to use 'human' rendering for an environment that doesn't natively support it. "
            "The HumanRendering wrapper is being applied to your environment."
        )
        return frames, HumanRendering
    if asked.endswith("_list") and asked[: -len("_list")] in offered:
        return asked[: -len("_list")], RenderCollection
    warn_user(
        f"The environment is being initialised with render_mode={asked!r} "
        f"that is not in the possible render_modes ({list(offered)})."
    )
    return asked, None
