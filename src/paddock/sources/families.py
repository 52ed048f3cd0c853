"""Which ids come from which library, and what to install for them. Nothing here imports a library.

A plain id that paddock does not have is looked for here, after the registry and its plugins; what is built in stays
paddock's own, and ``gymnasium:CartPole-v1`` names Gymnasium's.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass
from typing import Any

from paddock.core import registry as lookup
from paddock.core.spec import EnvSpec, parse_id, public_path
from paddock.errors import DependencyNotInstalled, DeprecatedEnv, NameNotFound, NamespaceNotFound, PaddockError

# ``prefix:name`` as a target, and the function that makes an EnvSpec of the name, once its code may be imported.
SOURCES = {
    "gymnasium": "paddock.sources.gymnasium:spec_of",
    "dm_control": "paddock.sources.dm_control:spec_of",
    "dm_env": "paddock.sources.dm_env:spec_of",
    "gym3": "paddock.sources.gym3:spec_of",
    "gymnax": "paddock.sources.gymnax:spec_of",
    "gym": "paddock.sources.old_gym:spec_of",
    "pettingzoo": "paddock.sources.pettingzoo:spec_of",
    "envpool": "paddock.sources.envpool:spec_of",
}

# Packages that people take for a prefix, and what stands before one of their names.
_NOT_PREFIXES = {"procgen": "gym3:procgen/", "ale_py": "ALE/", "ale": "ALE/", "atari": "ALE/", "mujoco": ""}
_THROUGH = {"gymnasium": "Gymnasium", "gym": "Gym", "pettingzoo": "PettingZoo", "envpool": "EnvPool"}


@dataclass(frozen=True)
class Family:
    """Environments that one package brings.

    ``ids`` is a pattern for the whole id. ``module`` is imported so that Gymnasium learns of them; empty where it
    knows them by itself. ``needs`` are the modules that must be there, beside the ``library`` that all of them are
    written for; ``install`` are the packages that bring them. ``lets_go``: most of a step leaves the interpreter's lock
    to other threads. ``note``: what else you have to know to install it.
    """

    name: str
    shown: str  # for people: what the ids look like
    ids: str
    install: str
    library: str = "gymnasium"
    needs: tuple[str, ...] = ()
    module: str = ""
    lets_go: bool = False
    note: str = ""

    @property
    def through(self) -> str:
        """The library, as people write it."""
        return _THROUGH.get(self.library, self.library)

    @property
    def missing(self) -> list[str]:
        """The modules that are not installed. The finders look at files; nothing is imported."""
        return [name for name in (self.library, *self.needs) if not is_installed(name)]

    def check_installed_for(self, user: str) -> None:
        """Raise DependencyNotInstalled with the command that helps, if a module is missing that ``user`` needs."""
        if missing := self.missing:
            raise DependencyNotInstalled(
                f"{user} needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed. "
                f"To install: pip install {self.install}"
            )


_MUJOCO = (
    "Ant|HalfCheetah|Hopper|Humanoid|HumanoidStandup|InvertedDoublePendulum|InvertedPendulum|Pusher|Reacher|Swimmer|"
    "Walker2d"
)
_OLD_MUJOCO = re.compile(r"(\w+)-v[0-3]", re.ASCII)


def _registering(module: str, name: str, shown: str, ids: str, install: str, **more: Any) -> Family:
    """Return the family whose package tells Gymnasium of its ids when ``module`` is imported."""
    return Family(name, shown, ids, install, needs=(module.partition(".")[0],), module=module, **more)


FAMILIES = (
    Family(
        "Box2D",
        "LunarLander-v3, LunarLanderContinuous-v3, BipedalWalker-v3, BipedalWalkerHardcore-v3, CarRacing-v3",
        r"(LunarLander|LunarLanderContinuous|BipedalWalker|BipedalWalkerHardcore|CarRacing)(-v\d+)?",
        "gymnasium box2d pygame-ce",
        needs=("Box2D", "pygame"),
    ),
    Family(
        "MuJoCo",
        f"{_MUJOCO.replace('|', ', ')}: -v4, -v5",
        rf"({_MUJOCO})(-v\d+)?",
        "'gymnasium[mujoco]'",
        needs=("mujoco", "imageio", "packaging"),
        lets_go=True,
    ),
    _registering(
        "ale_py", "Atari", "ALE/*, *NoFrameskip-v4", r"ALE/.+|\w+(NoFrameskip|Deterministic)-v[04]", "gymnasium ale-py"
    ),
    _registering("minigrid", "MiniGrid", "MiniGrid-*, BabyAI-*", r"(MiniGrid|BabyAI)-.+", "minigrid"),
    _registering("miniworld", "MiniWorld", "MiniWorld-*", r"MiniWorld-.+", "miniworld"),
    _registering(
        "highway_env",
        "highway-env",
        "highway-v0, merge-v0, roundabout-v0, parking-v0, intersection-v0, racetrack-v0, …",
        r"(highway(-fast)?|merge|roundabout|parking(-ActionRepeat|-parked)?|intersection(-multi-agent)?|racetrack"
        r"(-large|-oval)?|exit|two-way|u-turn|lane-keeping)-v\d+",
        "highway-env",
    ),
    _registering(
        "gymnasium_robotics",
        "Gymnasium-Robotics",
        "Fetch*, HandReach*, HandManipulate*, AdroitHand*, PointMaze_*, AntMaze_*, FrankaKitchen-v1",
        r"(Fetch|HandReach|HandManipulate|AdroitHand|PointMaze_|AntMaze_|FrankaKitchen)\w*-v\d+",
        "gymnasium-robotics 'mujoco<3.4'",
        lets_go=True,
        note="with MuJoCo 3.4 and later, Fetch* and Hand* fail with an AssertionError",
    ),
    _registering("metaworld", "Meta-World", "Meta-World/*", r"Meta-World/.+", "metaworld packaging"),
    _registering("nle", "NetHack", "NetHack*-v0", r"NetHack\w*-v\d+", "nle"),
    _registering("minihack", "MiniHack", "MiniHack-*", r"MiniHack-.+", "minihack"),
    _registering("vizdoom.gymnasium_wrapper", "ViZDoom", "Vizdoom*", r"Vizdoom\w+-(v|MultiBinary-v)\d+", "vizdoom"),
    _registering("panda_gym", "panda-gym", "PandaReach-v3, PandaPush-v3, …", r"Panda[A-Z]\w*-v\d+", "panda-gym"),
    _registering(
        "browsergym.core", "BrowserGym", "browsergym/*", r"browsergym/.+", "browsergym && playwright install chromium"
    ),
    _registering(
        "shimmy", "Shimmy", "dm_control/*, bsuite/*", r"(dm_control|bsuite)/.+", "'shimmy[dm-control]' 'mujoco<4'"
    ),
)

GYMNASIUM = Family("Gymnasium", "gymnasium:*", r".+", "gymnasium")

# By the prefix of a target: the particular ones, then the one for all other ids. ``install`` also has what a package
# forgot to declare.
LIBRARIES = {
    "dm_control": (
        Family(
            "dm_control",
            "dm_control:cartpole/balance, dm_control:manipulation/reach_site_features, …",
            r".+",
            "dm-control 'mujoco<4' packaging",
            library="dm_control",
            needs=("mujoco", "packaging"),
        ),
    ),
    "dm_env": (Family("dm_env", "dm_env:module:function", r".+", "dm-env", library="dm_env"),),
    "gym3": (
        Family(
            "Procgen", "gym3:procgen/coinrun, …", r"procgen/.+", "procgen2 gym3", library="gym3", needs=("procgen",)
        ),
        Family("gym3", "gym3:module:function", r".+", "gym3", library="gym3"),
    ),
    "gymnax": (
        Family("functional", "gymnax:module:function", r".+:.+", "jax", library="jax"),
        Family("gymnax", "gymnax:CartPole-v1, …", r".+", "gymnax six", library="gymnax", needs=("jax", "six")),
    ),
    "gym": (Family("Gym", "gym:CartPole-v1, gym:module:Id-v0 (0.21 to 0.26)", r".+", "gym", library="gym"),),
    "pettingzoo": (
        Family(
            "PettingZoo",
            "pettingzoo:classic/tictactoe_v3, pettingzoo:butterfly/pistonball_v6, …",
            r".+",
            "pettingzoo pygame-ce",
            library="pettingzoo",
            needs=("gymnasium",),
        ),
    ),
    "envpool": (Family("EnvPool", "envpool:Pong-v5, …", r".+", "envpool", library="envpool"),),
}


def family_of(id: str) -> Family | None:
    """Return the family that this id belongs to, as far as its name tells."""
    return next((one for one in FAMILIES if re.fullmatch(one.ids, id, re.ASCII)), None)


def in_gymnasium(id: str) -> bool:
    """Whether a program that has imported gymnasium has registered this id there, in some version; imports nothing."""
    registry = getattr(imported_gymnasium(), "registry", {})
    return any(one.id in (id, f"{id}-v{one.version}") and not is_paddocks(one) for one in registry.values())


def imported_gymnasium() -> Any:
    """Return the module, if a program has imported it; the name may also stand for paddock.gym."""
    gymnasium = sys.modules.get("gymnasium")
    return gymnasium if gymnasium is not None and gymnasium.__name__ == "gymnasium" else None


def is_paddocks(spec: Any) -> bool:
    """Whether a spec in Gymnasium's registry makes one of paddock's own environments."""
    return str(spec.entry_point).startswith("paddock.")


def family_in_gymnasium(source: str | None, id: str | None, entry_point: Any) -> Family | None:
    """Return the family of a target, or of its spec, if Gymnasium makes it."""
    by_path = isinstance(entry_point, str) and public_path(entry_point) == "paddock.sources:FromGymnasium"
    made_there = source == "gymnasium" or by_path
    return family_of(id.rpartition(":")[2]) if made_there and id is not None else None


def family_or_gymnasium(id: str) -> Family:
    """Return the id's family; for other ids Gymnasium alone, which may know them."""
    return family_of(id) or GYMNASIUM


def library_family(source: str, id: str) -> Family:
    """Return the family of ``source:id``, as far as its name tells. ``source`` is one of SOURCES."""
    if source == "gymnasium":
        return family_or_gymnasium(id)
    *particular, rest = LIBRARIES[source]
    return next((one for one in particular if re.fullmatch(one.ids, id, re.ASCII)), rest)


def installed_family(source: str, id: str) -> Family:
    """Return the family of ``source:id``; DependencyNotInstalled if a module of it is missing.

    DeprecatedEnv for what today's libraries can't make.
    """
    family = library_family(source, id)
    if family.name == "MuJoCo" and (old := _OLD_MUJOCO.fullmatch(id)):
        raise DeprecatedEnv(
            f"{id!r} can't be run: it needs mujoco-py, which Gymnasium does not know any more. "
            f"Please use `{old[1]}-v5` instead."
        )
    shown = id if source == "gymnasium" else f"{source}:{id}"
    family.check_installed_for(f"{shown!r} is one of {family.name}'s environments and")
    return family


def describe_source(source: str, id: str) -> str:
    """Say where an id comes from and whether that is installed, for ``explain``."""
    family = library_family(source, id)
    name = family.name if family.name == family.through else f"{family.name} through {family.through}"
    return f"{name}, not installed: pip install {family.install}" if family.missing else name


def modules_of(source: str, id: str) -> list[str]:
    """Return the modules that hold the code of ``source:id``; DependencyNotInstalled if one is missing.

    Imports nothing.
    """
    family = installed_family(source, id)
    own, _, _ = id.rpartition(":")
    return [name for name in (family.library, *family.needs, own) if name]


def is_installed(module: str) -> bool:
    """Whether the top-level module can be found; nothing is imported."""
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except ValueError:  # in sys.modules without a spec, or None: taken out on purpose
        return False


# Not in ``paddock.core``, which stands below this table: errors here say which other library has an id.


def spec(env_id: str) -> EnvSpec:
    """Return the registered spec of exactly this id."""
    try:
        return lookup.spec(env_id)
    except (NameNotFound, NamespaceNotFound) as error:
        raise _explain(error, env_id) from None


def find_spec(env_id: str) -> EnvSpec:
    """Return the spec that ``make(env_id)`` means: without a version the newest, with a warning if one is newer."""
    try:
        return lookup.find_spec(env_id)
    except (NameNotFound, NamespaceNotFound) as error:
        raise _explain(error, env_id) from None


def suggest_source(module: str, name: str) -> str:
    """Return a sentence for ``module:name`` if there is no such module but it looks like a prefix; else ""."""
    if module in _NOT_PREFIXES:
        return f" Did you mean '{_NOT_PREFIXES[module]}{name}'?"
    from difflib import get_close_matches

    close = get_close_matches(module.lower().replace("-", "_"), list(SOURCES), n=1, cutoff=0.75)
    return f" Did you mean '{close[0]}:{name}'?" if close else ""


def _explain(error: PaddockError, id: str) -> PaddockError:
    family = family_of(id)
    if family is None:
        parts = [part for one in FAMILIES for part in re.split(r"[,:] *", one.shown)]
        names = [found[1] for part in parts if (found := re.fullmatch(r"([A-Za-z][\w-]*?)(-v\d+)?", part, re.ASCII))]
        namespaces = [found[1] for part in parts if (found := re.fullmatch(r"([\w-]+)/\*", part, re.ASCII))]
        return lookup.not_found(parse_id(id), names=names, namespaces=namespaces)
    missing = f" To install what it needs: pip install {family.install}" if family.missing else ""
    return type(error)(
        f"{id!r} is not registered in paddock: it is one of {family.name}'s environments, whose specs are known once "
        f"they are made. paddock.make({id!r}).spec is this one's; in a shell: paddock info --make {id}.{missing}"
    )
