"""What a trace says of an episode before it begins: which environment, which seed, which task, which spaces."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from paddock.core.env import Env
from paddock.core.spec import EnvSpec, entry_point_text
from paddock.errors import CustomSpaceError, InvalidSpace, InvalidSpec, NoCanonicalForm
from paddock.record.identity import environment_digest
from paddock.record.trace.episode import Episode
from paddock.spaces import Space


@dataclass(frozen=True)
class Opening:
    """``options`` and ``task`` are those of the reset; ``about`` is for notes of whoever records."""

    env: str | None
    spec: EnvSpec | None
    digest: str | None
    observation_space: Space[Any] | None
    action_space: Space[Any] | None
    seed: int | None
    options: Mapping[str, Any] | None = None
    task: Any = None
    about: Mapping[str, Any] | None = None

    @staticmethod
    def of(env: Env[Any, Any], *, seed: int | None, name: str | None = None, **more: Any) -> Opening:
        """Of an environment that is about to be reset; ``name`` in place of its spec's id."""
        spec, digest = env.spec, None
        if spec is not None:
            with suppress(NoCanonicalForm):  # a function among its arguments: nothing says which environment it is
                digest = environment_digest(spec)
        named = name or (entry_point_text(type(env.unwrapped)) if spec is None else spec.id)
        return Opening(named, spec, digest, env.observation_space, env.action_space, seed, **more)

    @staticmethod
    def like(episode: Episode, *, about: Mapping[str, Any]) -> Opening:
        """Of an episode that was read, with other notes."""
        return Opening(
            env=episode.env,
            spec=episode.spec,
            digest=episode.digest,
            observation_space=episode.observation_space,
            action_space=episode.action_space,
            seed=episode.seed,
            options=episode.options,
            task=episode.task,
            about=about,
        )

    def spec_form(self) -> dict[str, Any] | None:
        """The spec as JSON data; None where it has code in it, which no trace carries."""
        if self.spec is None:
            return None
        try:
            form: dict[str, Any] = json.loads(self.spec.to_json())
        except InvalidSpec:
            return None
        return form

    def spaces_form(self) -> dict[str, Any] | None:
        """The spaces as JSON data; None where one is of a class of its own."""
        if self.observation_space is None or self.action_space is None:
            return None
        try:
            spaces = {"observation": self.observation_space, "action": self.action_space}
            return {name: json.loads(space.to_json()) for name, space in spaces.items()}
        except (CustomSpaceError, InvalidSpace):
            return None
