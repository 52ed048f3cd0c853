"""Policies of a benchmark: what a name on the command line acts as, and the digest by which a record knows it.

``random`` and ``null`` are paddock's own. A file runs behind a wall; ``module:function`` and checkpoints are the user's
own code, in this process. Each episode has a policy of its own, seeded by the episode's seed, so lanes change nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from paddock.agentic.chat import assistant_message
from paddock.agentic.endpoint import ModelEndpoint
from paddock.agentic.rollouts import Turn
from paddock.bench.bundle import PolicyPlan
from paddock.bench.plan import folder_digest
from paddock.errors import DependencyNotInstalled, InvalidSuite, ModelReplyCutOff, PaddockError
from paddock.seeding import derived_seed
from paddock.spaces import Box, Discrete, Space

Choose = Callable[[Any], Any]
Maker = Callable[[Space[Any], Space[Any], int], Choose]  # observation space, action space, seed of the episode
_DRAWS = 256
_STREAM = 1  # of an episode's seeds: the environment has the seed itself
_FORMS = (
    "random, null, a file as ./agent.py, module:function, sb3:PPO:model.zip, torch:model.pt, or https://host/v1#model"
)


@dataclass(frozen=True)
class PolicySource:
    """A policy that can be made for each episode. ``maker`` gets the spaces and the episode's seed.

    ``agentic``: it plays environments of tools only.
    """

    plan: PolicyPlan
    maker: Maker
    agentic: bool = False


def find_policy(name: str, *, isolation: str | None = None) -> PolicySource:
    """The policy of this name; InvalidSuite lists what a name may be. ``isolation`` is the wall around a file."""
    if name in _OWN:
        digest = hashlib.sha256(f"paddock policy {name} 1".encode()).hexdigest()
        return PolicySource(PolicyPlan(name=name, digest=digest), _OWN[name])
    kind, _, rest = name.partition(":")
    if name.startswith(("http://", "https://")):
        url, _, model = name.partition("#")
        return _endpoint(url, model)
    if kind == "sb3":
        algorithm, _, file = rest.partition(":")
        return _checkpoint(f"sb3:{algorithm}", file, lambda: _load_sb3(algorithm, file))
    if kind == "torch":
        return _checkpoint("torch", rest, lambda: _load_torch(rest))
    if name.endswith(".py"):
        return _checkpoint("file", name, lambda: lambda *spaces: _agent(name, spaces, isolation))
    if rest and all(part.isidentifier() for part in [*kind.split("."), rest]):
        return _function(kind, rest)
    raise InvalidSuite(f"no policy {name!r}. Expected {_FORMS}.")


def _checkpoint(kind: str, file: str, load: Callable[[], Maker]) -> PolicySource:
    path = Path(file)
    if not path.is_file():
        raise InvalidSuite(f"the policy {kind}: {file!r} is not a file. Expected {_FORMS}.")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return PolicySource(PolicyPlan(name=f"{kind}:{path.name}", digest=digest), load())


def _function(module: str, name: str) -> PolicySource:
    """A function of the observation, or of the Turn in an environment of tools. Its digest is over its package."""
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise InvalidSuite(
            f"the policy {module}:{name}: {error}. Name a function that can be imported here."
        ) from error
    origin = getattr(find_spec(module.partition(".")[0]), "origin", None)
    digest = None
    if origin is not None:
        path = Path(origin)
        package = path.name == "__init__.py"
        digest = folder_digest(path.parent) if package else hashlib.sha256(path.read_bytes()).hexdigest()
    return PolicySource(PolicyPlan(name=f"{module}:{name}", digest=digest), lambda *_: found)


def _agent(file: str, spaces: Any, isolation: str | None) -> Choose:
    from paddock.making.agents import make_agent

    observation_space, action_space, seed = spaces
    return make_agent(file, observation_space, action_space, seed=seed, isolation=isolation)


class RandomPolicy:
    """Samples the action space, from a stream that follows from the episode's seed."""

    def __init__(self, observations: Space[Any], actions: Space[Any], seed: int) -> None:
        self._space, self._seed = actions, derived_seed(seed, _STREAM)
        self._drawn: list[Any] = []
        self._many: np.random.Generator | None = None
        if type(actions) is Discrete:  # many at once: a sample takes longer than a step of most built-in environments
            self._many = np.random.default_rng(self._seed)
        else:
            self._space = deepcopy(actions)
            self._space.seed(self._seed)

    def __call__(self, observation: Any) -> Any:
        if self._many is None:
            return self._space.sample()
        if not self._drawn:
            low: Any = self._space.start  # type: ignore[attr-defined]
            self._drawn = self._many.integers(low, low + self._space.n, _DRAWS).tolist()  # type: ignore[attr-defined]
        return self._drawn.pop()


def first_action(space: Space[Any]) -> Any:
    """The first valid action: the lowest, zero where there is no lowest, and for agents an empty reply."""
    if isinstance(space, Discrete):
        return int(space.start)
    if isinstance(space, Box):
        return np.where(np.isfinite(space.low), space.low, np.zeros((), space.dtype)).astype(space.dtype)
    with suppress(PaddockError):
        from paddock.agentic.messages import Say

        if space.contains(Say("")):
            return Say("")
    if hasattr(space, "spaces"):
        parts = space.spaces
        if isinstance(parts, dict):
            return {key: first_action(part) for key, part in parts.items()}
        return tuple(first_action(part) for part in parts)
    start = getattr(space, "start", 0)
    return np.zeros(space.shape or (), space.dtype) + np.asarray(start, space.dtype)


def _null(observations: Space[Any], actions: Space[Any], seed: int) -> Choose:
    action = first_action(actions)
    return lambda observation: action


_OWN: dict[str, Maker] = {"random": RandomPolicy, "null": _null}


def _load_sb3(algorithm: str, file: str) -> Maker:
    """A checkpoint of Stable-Baselines3. Loading one runs code that it holds: it is the user's own."""
    try:
        sb3 = importlib.import_module("stable_baselines3")
    except ImportError as error:
        raise DependencyNotInstalled(
            "SB3 checkpoints need stable-baselines3. Run: pip install stable-baselines3"
        ) from error
    kind = getattr(sb3, algorithm, None)
    if kind is None:
        raise InvalidSuite(
            f"sb3:{algorithm}: stable_baselines3 has no {algorithm!r}. Expected one such as sb3:PPO:model.zip."
        )
    model = kind.load(file, device="cpu")

    def make(observations: Space[Any], actions: Space[Any], seed: int) -> Choose:
        return lambda observation: model.predict(observation, deterministic=True)[0]

    return make


def _load_torch(file: str) -> Maker:
    """A TorchScript module: observations in; scores of actions out, or for a Box the action."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise DependencyNotInstalled("Torch checkpoints need torch. Run: pip install torch") from error
    model = torch.jit.load(file, map_location="cpu").eval()

    def make(observations: Space[Any], actions: Space[Any], seed: int) -> Choose:
        def choose(observation: Any) -> Any:
            with torch.no_grad():
                out = model(torch.as_tensor(np.asarray(observation, np.float32))[None])[0].numpy()
            if isinstance(actions, Discrete):
                return int(actions.start) + int(out.argmax())
            return np.clip(out.reshape(actions.shape), actions.low, actions.high).astype(actions.dtype)  # type: ignore[attr-defined]

        return choose

    return make


def _endpoint(url: str, model: str) -> PolicySource:
    """A model behind a chat-completions API. Its address is in no record, and nobody can hash what answers there."""
    if not model:
        raise InvalidSuite(f"the policy {url!r} names no model. Expected https://host/v1#model.")
    endpoint = ModelEndpoint(model, url, temperature=0)

    def choose(turn: Turn) -> Any:
        call = asyncio.run(endpoint.answer(turn, keep_alive=False))
        if call.cut_off:
            raise ModelReplyCutOff(f"The reply was cut off after {call.completion_tokens} tokens.", call=call)
        return assistant_message(call.reply)

    return PolicySource(PolicyPlan(name=f"model {model}", digest=None), lambda *_: choose, agentic=True)
