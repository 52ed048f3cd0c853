"""Environments of PettingZoo as one Env: all agents at once (Parallel), whoever's turn it is (AEC), or one agent.

An Env has one reward and one pair of flags. A reader would look for a dict of rewards where the reward is: it is in
``info["rewards"]``, and what is returned is said by each of the three classes.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import warnings
from dataclasses import dataclass
from typing import Any, Literal, cast

import paddock.errors as errors
from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.errors import DependencyNotInstalled, NameNotFound, PlanError, WrongClass
from paddock.sources.borrowed import Borrowed
from paddock.sources.families import installed_family
from paddock.sources.pettingzoo_agents import OneAgent, Policy
from paddock.sources.pettingzoo_faces import AllAgents, Turns
from paddock.sources.their_errors import help_for
from paddock.wrappers.guard import Guard

Api = Literal["parallel", "aec"]

_ENTRY_POINT = "paddock.sources.pettingzoo:FromPettingZoo"
_VERSION = re.compile(r"[-_]v(\d+)$", re.ASCII)
_MODES = ["human", "rgb_array", "ansi"]  # of an environment that is made by a function, which does not say


def from_pettingzoo(
    env: Any, *, agent: str | None = None, opponents: Policy | None = None, validate: bool = True
) -> Env[Any, Any]:
    """A Parallel or AEC environment as an Env in its guard.

    Parallel: all agents at once, ``AllAgents``. AEC: the agent whose turn it is, ``Turns``. With ``agent``: that one
    alone, ``OneAgent``, and ``opponents`` play the others: a function of (observation, info) with the info's "agent"
    and "action_mask"; without one they draw among the allowed actions. Actions are checked unless ``validate`` is
    False. To have lanes, a wall or a server, name it: ``paddock.make("pettingzoo:classic/tictactoe_v3")``.
    """
    return Guard(_face(env, agent, opponents), validate=validate)


def spec_of(id: str) -> EnvSpec:
    """Ours for ``classic/tictactoe_v3``, as PettingZoo's modules or its registry name it, or ``module:name``."""
    ByName(id).check()
    return EnvSpec(id, entry_point=_ENTRY_POINT)


class FromPettingZoo:
    """The entry point of all of them; the spec's id says which."""

    @classmethod
    def for_spec(cls, spec: EnvSpec) -> ByName:
        """What makes the environment that this spec's id names."""
        return ByName(spec.id)


@dataclass(frozen=True)
class ByName:
    """Makes what an id of PettingZoo's names."""

    id: str

    def check(self) -> None:
        """Find its code: DependencyNotInstalled or NameNotFound if there is none."""
        self._factories()

    @property
    def metadata(self) -> Info:
        """What the environment's class says of itself, its render modes for one."""
        said = getattr(self._factories().get("raw"), "metadata", None)
        return cast("Info", said) if isinstance(said, dict) else {"render_modes": _MODES}

    def __call__(
        self, *, api: Api | None = None, agent: str | None = None, opponents: Policy | None = None, **kwargs: Any
    ) -> Borrowed:
        """``api``: which of its two forms; parallel where it has that one, unless one ``agent`` is asked for."""
        made = self._factories()
        if api is None:
            api = "parallel" if "parallel" in made and (agent is None or "aec" not in made) else "aec"
        if api not in made:
            forms = " and ".join(name for name in made if name != "raw")
            raise PlanError(f"{self.id!r} has no api={api!r}. It has {forms}.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return _face(made[api](**kwargs), agent, opponents)

    def _factories(self) -> dict[str, Any]:
        installed_family("pettingzoo", self.id)
        try:
            with warnings.catch_warnings():
                # Since 1.27 each module says that the registry is the newer way to it; both lead to the same code.
                warnings.simplefilter("ignore", DeprecationWarning)
                return self._registered() or self._of_module()
        except ImportError as error:
            raise DependencyNotInstalled(f"{self.id!r} can't be imported: {self._reason(error)}") from error

    def _reason(self, error: ImportError) -> str:
        """What was said, and what to install."""
        module, _, name = self.id.rpartition(":")
        said = str(error).rstrip(".")
        if module or "pip install" in said:  # someone's own, or PettingZoo says it better than its extras would
            return f"{said}.{help_for(error) or ''}"
        return f"{said}. To install what it needs: pip install 'pettingzoo[{name.partition('/')[0]}]'"

    def _registered(self) -> dict[str, Any]:
        """By PettingZoo's registry, where it has one and that knows the id."""
        import pettingzoo

        module, _, _ = self.id.rpartition(":")
        if module:
            importlib.import_module(module)
        id, found = _VERSION.sub(r"-v\1", self._name()), dict[str, Any]()
        for api in ("parallel", "aec"):
            if id in getattr(pettingzoo, f"{api}_registry", {}):
                found[api] = _maker(pettingzoo, api, id)
        if found:
            creator = pettingzoo.spec(next(iter(found)), id).entry_point
            found["raw"] = _raw_of(creator) if isinstance(creator, str) else None
        return found

    def _of_module(self) -> dict[str, Any]:
        """By the module that its author put it into."""
        module, _, name = self.id.rpartition(":")
        last = _VERSION.sub(r"_v\1", name).replace("/", ".")
        place = f"{module or 'pettingzoo'}.{last}"
        try:
            found = importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{place}.".startswith(f"{error.name}."):
                raise
            raise NameNotFound(
                f"PettingZoo has no {self.id!r}: there is no module {place}. Expected a name as classic/tictactoe_v3, "
                f"or module:name."
            ) from None
        names = {"parallel": "parallel_env", "aec": "env", "raw": "raw_env"}
        made = {api: getattr(found, attribute) for api, attribute in names.items() if hasattr(found, attribute)}
        if made.keys() <= {"raw"}:
            raise NameNotFound(
                f"PettingZoo has no {self.id!r}: the module {place} makes no environment.{self._versions(place)}"
            )
        return made

    def _versions(self, place: str) -> str:
        """A sentence with the names that differ by a version alone."""
        above, _, last = place.rpartition(".")
        beside = vars(importlib.import_module(above)).get("__path__", ())
        own = re.compile(rf"{re.escape(last)}_v\d+", re.ASCII)
        found = sorted(name for _, name, _ in pkgutil.iter_modules(beside) if own.fullmatch(name))
        return f" Did you mean {self.id.removesuffix(last)}{found[-1]}?" if found else ""

    def _name(self) -> str:
        return self.id.rpartition(":")[2]


def _maker(pettingzoo: Any, api: str, id: str) -> Any:
    return lambda **kwargs: pettingzoo.make(api, id, **kwargs)


def _raw_of(entry_point: str) -> Any:
    """The class behind a registered function, by the name that it has in all of PettingZoo's modules."""
    return getattr(importlib.import_module(entry_point.partition(":")[0]), "raw_env", None)


def _face(env: Any, agent: str | None, opponents: Policy | None) -> Borrowed:
    parallel = not hasattr(env, "agent_iter") and hasattr(env, "possible_agents")
    if not (parallel or hasattr(env, "agent_iter")):
        raise WrongClass(f"from_pettingzoo() takes a Parallel or AEC environment, got {type(env).__name__}.")
    if agent is None and opponents is not None:
        raise errors.MissingArgument("opponents= play against one agent: say which, agent='player_0' for one.")
    if agent is None:
        return AllAgents(env) if parallel else Turns(env)
    if parallel:
        from pettingzoo.utils.conversions import parallel_to_aec

        env = parallel_to_aec(env)
    return OneAgent(env, agent, opponents)
