"""Digests: of a trajectory, and of an environment, over the canonical bytes of values (``core/values.py``).

Equal trajectory digests mean equal numbers, bit for bit. Infos and rendered frames are not in it: they may hold clocks
and names, and no agent is graded by them.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import Any, SupportsFloat

from paddock.core.spec import EnvSpec, entry_point_text, public_path
from paddock.core.spec_json import SPEC_JSON
from paddock.core.values import canonical_bytes
from paddock.errors import InvalidSpec, NoCanonicalForm

_FORMAT = b"paddock trajectory 1\n"
ABOUT_LANES = ("num_envs", "vectorization_mode")
_FIELDS = ("id", "max_episode_steps", "order_enforce", "disable_env_checker")


class TrajectoryDigest:
    """sha256 over resets and steps in the order in which they happened.

    After the name of the format, a reset adds ``R``, its seed and its observation; a step adds ``S``, the action, the
    observation, the reward as a little-endian float64, and one byte: 1 if terminated, plus 2 if truncated. Values are
    in their canonical bytes.

    >>> digest = TrajectoryDigest()
    >>> digest.reset(7, [0.5])
    >>> digest.step(1, [0.6], 1.0, True, False)
    >>> digest.hexdigest()[:16]
    'a5d1530a821174d2'
    """

    def __init__(self) -> None:
        self._sha = hashlib.sha256(_FORMAT)

    def reset(self, seed: int | None, observation: Any) -> None:
        """An episode began. ``seed`` is None if it had none."""
        self._sha.update(b"R" + canonical_bytes(seed) + canonical_bytes(observation))

    def step(self, action: Any, observation: Any, reward: SupportsFloat, terminated: bool, truncated: bool) -> None:
        """Add one step. A value without a canonical form raises NoCanonicalForm and leaves the digest as it was."""
        ending = struct.pack("<dB", float(reward), bool(terminated) + 2 * bool(truncated))
        self._sha.update(b"S" + canonical_bytes(action) + canonical_bytes(observation) + ending)

    def hexdigest(self) -> str:
        """The digest so far, as 64 hexadecimal digits."""
        return self._sha.hexdigest()


def environment_digest(spec: EnvSpec) -> str:
    """Which environment a spec makes: sha256, as 64 hexadecimal digits, over what makes it behave as it does.

    It is the same at every distance, and for one environment and n lanes of it. A built-in environment counts by its id
    and a wrapper by its public name, so the digest does not depend on the files that paddock's code is in.

    Take the spec of an environment that was made: its wrappers have recorded every argument, defaults included.
    A wrapper with a function among its arguments, or with none recorded, is a NoCanonicalForm that names it.

    >>> import paddock
    >>> here, lanes = paddock.make("CartPole-v1"), paddock.make_vec("CartPole-v1", num_envs=2)
    >>> environment_digest(here.spec) == environment_digest(lanes.spec)
    True
    """
    import paddock  # through the root: the ids that come with paddock are above this layer

    code = {"entry_point": _path(spec, public_path)}
    if code["entry_point"] is not None and paddock.registry.is_built_in(spec.id, code["entry_point"]):
        code = {}
    return _digest(2, spec, code, public_path)


def known_digests(spec: EnvSpec) -> tuple[str, str]:
    """Both digests by which a record may name this environment: today's, and that of version 1, which named files."""
    return environment_digest(spec), _digest(1, spec, {"entry_point": _path(spec, former_path)}, former_path)


def _path(spec: EnvSpec, form: Callable[[str], str]) -> str | None:
    return None if spec.entry_point is None else form(entry_point_text(spec.entry_point))


def _digest(version: int, spec: EnvSpec, code: dict[str, str | None], form: Callable[[str], str]) -> str:
    """Leave out what only informs: a threshold, the vector entry point."""
    kwargs = {name: value for name, value in spec.kwargs.items() if name not in ABOUT_LANES}
    described = {
        **{name: getattr(spec, name) for name in _FIELDS},
        **code,
        "kwargs": _plain(kwargs, f"{spec.id}.kwargs"),
        "wrappers": [
            [form(w.entry_point), _plain(w.kwargs, f"{spec.id}.{w.name}.kwargs")] for w in spec.additional_wrappers
        ],
    }
    return hashlib.sha256(b"paddock environment %d\n" % version + canonical_bytes(described)).hexdigest()


def _plain(arguments: dict[str, Any] | None, path: str) -> Any:
    if arguments is None:
        raise NoCanonicalForm(f"{path} were not recorded, so the environment can't be identified.")
    try:
        return SPEC_JSON.write(arguments, path)
    except InvalidSpec as error:
        raise NoCanonicalForm(f"{error} Without it the environment can't be identified.") from error


def former_path(entry_point: str) -> str:
    """The entry point as records of version 1 have it. Code that is not paddock's stays as it is."""
    return _FORMER_PATHS.get(public_path(entry_point), entry_point)


# Where paddock's code was when records named files, as version 1 of the environment digest and the journals of servers
# do. Frozen: this is the past, and code that came later needs no entry. By the package that exports the names: rows of
# a file in it, and the names that were in that file.
_FORMER_FILES = {
    "paddock.wrappers": """
        array_conversion ArrayConversion JaxToNumpy JaxToTorch NumpyToTorch TorchToNumpy
        atari AtariPreprocessing
        autoreset Autoreset
        delay DelayObservation
        discretize DiscretizeAction DiscretizeObservation
        filter_observation FilterObservation
        flatten_observation FlattenObservation
        frame_stack FrameStackObservation
        guard Guard
        many_lanes ManyLanes ManyLanesAction ManyLanesObservation ManyLanesReward
        noise AddWhiteNoise ObstructView
        normalize_observation NormalizeObservation
        normalize_reward NormalizeReward
        one_lane OneLane OneLaneAction OneLaneObservation OneLaneReward
        order_enforcing OrderEnforcing
        passive_checker PassiveEnvChecker
        pixels GrayscaleObservation ResizeObservation
        record_video RecordVideo
        render_observation AddRenderObservation
        rendering HumanRendering RenderCollection
        repeat MaxAndSkipObservation RepeatAction
        rescale RescaleAction RescaleObservation
        reshape_observation DtypeObservation ReshapeObservation
        reward ClipReward TransformReward
        statistics RecordEpisodeStatistics
        sticky_action StickyAction
        time_aware TimeAwareObservation
        time_limit TimeLimit
        transform_action ClipAction TransformAction
        transform_observation TransformObservation
    """,
    "paddock.envs": """
        classic_control.cartpole CartPoleEnv CartPoleVectorEnv
        classic_control.mountain_car MountainCarEnv MountainCarVectorEnv
        classic_control.continuous_mountain_car Continuous_MountainCarEnv Continuous_MountainCarVectorEnv
        classic_control.pendulum PendulumEnv PendulumVectorEnv
        classic_control.acrobot AcrobotEnv AcrobotVectorEnv
        toy_text.frozen_lake FrozenLakeEnv FrozenLakeVectorEnv
        toy_text.cliffwalking CliffWalkingEnv CliffWalkingVectorEnv
        toy_text.taxi TaxiEnv TaxiVectorEnv
        toy_text.blackjack BlackjackEnv BlackjackVectorEnv
    """,
    "paddock.agentic.envs": """
        echo Echo
        wordle Wordle
        python_code PythonCode
    """,
    "paddock.sources": """
        envpool EnvPoolEnv EnvPoolLanes
        dm_control FromDmControl
        dm_env FromDmEnv
        gym3 FromGym3
        gymnasium FromGymnasium
        gymnax FromGymnax
        old_gym FromGym
        pettingzoo FromPettingZoo
    """,
}
_FORMER_PATHS = {
    f"{package}:{name}": f"{package}.{file}:{name}"
    for package, rows in _FORMER_FILES.items()
    for file, *names in map(str.split, rows.strip().splitlines())
    for name in names
}
