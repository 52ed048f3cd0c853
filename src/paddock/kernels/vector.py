"""KernelVectorEnv: n lanes of a kernel behind one call, equal to n single environments seeded seed, seed + 1, …

Without Numba the same loop runs as Python: slower, the same numbers.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np

from paddock.core.env import Info
from paddock.core.lane import lane_seeds, reset_mask, reset_needed, value_per_lane
from paddock.core.state import State, read_public_state
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.core.window import Window, as_surface, load_pygame
from paddock.errors import ClosedEnvironmentError, InvalidAction, InvalidLanes, ResetNeeded
from paddock.kernels import driver
from paddock.kernels.env import KernelEnv, env_class
from paddock.kernels.kernel import Kernel
from paddock.kernels.lanes import Lanes, LaneThreads
from paddock.kernels.snapshot import decode_lanes, encode_lanes
from paddock.seeding import np_random
from paddock.spaces import Discrete
from paddock.spaces.batch import batch_space

Array = np.ndarray[Any, Any]
_MODES = {
    AutoresetMode.NEXT_STEP: driver.NEXT_STEP,
    AutoresetMode.SAME_STEP: driver.SAME_STEP,
    AutoresetMode.DISABLED: driver.DISABLED,
}
LARGEST_GRID = (1280, 800)
LANES_SHOWN = 64


class KernelVectorEnv(VectorEnv[Any, Any, Array]):
    """``num_envs`` lanes of ``kernel``.

    ``copy=False`` returns buffers that the next step overwrites. ``threads`` above 1 lets that many threads share
    the lanes; it pays for thousands of lanes. ``statistics`` adds ``info["episode"]`` with return and length when an
    episode ends. Actions are always validated: a lane with a bad one is named, and no lane has moved.
    rewards: float64[n]; terminations, truncations: bool[n].
    """

    env_type: ClassVar[type[KernelEnv]]
    takes_lane_options: ClassVar[bool] = True

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        threads: int = 1,
        statistics: bool = False,
        strict: bool = True,
        **arguments: Any,
    ) -> None:
        self._arguments = {
            **arguments,
            "num_envs": num_envs,
            "max_episode_steps": max_episode_steps,
            "render_mode": render_mode,
            "autoreset_mode": autoreset_mode,
            "copy": copy,
            "threads": threads,
            "statistics": statistics,
            "strict": strict,
        }
        self.num_envs, self.render_mode, self.copy, self.statistics = num_envs, render_mode, copy, statistics
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**self.env_type.metadata, "autoreset_mode": self.autoreset_mode}
        self._single = self.env_type(render_mode=render_mode, **arguments)
        params = self._single._params
        self.single_observation_space = self._single.observation_space
        self.single_action_space = self._single.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.max_episode_steps = max_episode_steps
        self._lanes = Lanes(
            self._single.kernel,
            params,
            num_envs,
            mode=_MODES[self.autoreset_mode],
            limit=max_episode_steps or 0,
            strict=strict,
            statistics=statistics,
            layout=self._single._layout,
        )
        self._single.kernel.check_steps(self._lanes.layout, params, self.single_action_space)
        # Python lanes share the interpreter's lock: more threads would only wait for each other.
        self._threads = LaneThreads(self._lanes, threads) if threads > 1 and self._lanes.compiled else None
        if self._threads is not None:
            weakref.finalize(self, self._threads.close)  # threads end with the environment, closed or forgotten
        self._name = uuid4().hex
        self._window = Window(self.metadata.get("render_fps", 30))
        self._began = False
        self._name_columns()

    def name_episodes(self, names: Callable[[], str]) -> None:
        """Draw the lanes' names from ``names`` instead of at random."""
        self._name = names()

    def _name_columns(self) -> None:
        """What the hot path touches, as attributes."""
        columns, layout = self._lanes.columns, self._lanes.layout
        self._action = columns["action"]
        self._dtype, self._shape = self._action.dtype, self._action.shape
        parts = tuple(columns[f"obs_{at}"] for at in range(len(layout.observation)))
        self._whole = len(parts) == 1
        observations = parts[0] if self._whole else parts
        self._views: tuple[Any, ...] = (observations, columns["reward"], columns["terminated"], columns["truncated"])
        self._plain = not layout.info and not self.statistics and self.autoreset_mode is not AutoresetMode.SAME_STEP
        self._plain = self._plain and self.render_mode != "human"  # the quick step does not render
        self._run: Callable[[int], int] = self._not_begun
        self._address = 0

    def _not_begun(self, address: int) -> int:
        raise ResetNeeded("Cannot call env.step() before calling env.reset()")

    def _refuse_closed(self, address: int) -> int:
        raise ClosedEnvironmentError("This environment is closed. Make a new one.")

    def _follow_lanes(self) -> None:
        """The lanes' way to step may change when their params do."""
        lanes, threads = self._lanes, self._threads
        if threads is not None:
            threads.follow_kernel()
            self._run = threads.step
        elif lanes.compiled:
            self._run, self._address = lanes.run, lanes.address
        else:
            self._run = lanes.step
        if self._plain and self._whole and type(self).step is KernelVectorEnv.step:
            self.step = quick_step(self)  # type: ignore[assignment,method-assign]

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, Info]:
        # The plain twin of `quick_step`, which takes its place where a step returns the four arrays and no infos.
        if type(actions) is not np.ndarray or actions.dtype is not self._dtype or actions.shape != self._shape:
            actions = self._cast(actions)
        self._action[...] = actions
        count = self._run(self._address)
        if count < 0:
            self._refuse(count)
        infos = {} if self._plain else self._infos(count)
        if not self.copy:
            return (*self._views, infos)
        _, reward, terminated, truncated = self._views
        return self._observations(), reward.copy(), terminated.copy(), truncated.copy(), infos

    def hold(self, lanes: Array) -> None:
        self._lanes.columns["mask"][:] = ~lanes
        self.step = self._step_and_release  # type: ignore[method-assign]

    def _step_and_release(self, actions: Any) -> tuple[Any, Array, Array, Array, Info]:
        del self.step
        try:
            return type(self).step(self, actions)
        finally:
            self._lanes.columns["mask"][:] = True
            if self._began:
                self._follow_lanes()

    def send(self, actions: Any) -> None:
        self._sent = self.step(actions)

    def recv(self) -> tuple[Any, Array, Array, Array, Info]:
        result: tuple[Any, Array, Array, Array, Info] = self._take_sent()
        return result

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
        if self.closed:
            self._refuse_closed(0)
        mask, options = reset_mask(options, self.num_envs, begun=self._began)
        seeds = lane_seeds(seed, self.num_envs)
        for lane in np.flatnonzero(mask):
            if seeds[lane] is not None or self._lanes.generators[lane] is None:
                self._lanes.use_generator(int(lane), np_random(seeds[lane])[0])
        if seed is not None and not isinstance(seed, (list, tuple, np.ndarray)):
            self._np_random, self._np_random_seed = np_random(seed)  # type: ignore[arg-type]
        lanes = self._lanes
        lanes.columns["mask"][:] = mask
        try:
            lanes.begin(self._single._start_params(options) if options else lanes.params)
        finally:
            lanes.columns["mask"][:] = True  # of a step: the lanes that move
        self._began = True
        self._follow_lanes()
        infos = lane_infos(lanes, mask) if lanes.layout.info else {}
        if self.render_mode == "human":
            self.render()
        return self._observations(), infos

    def _observations(self) -> Any:
        observations = self._views[0]
        if not self.copy:
            return observations
        return observations.copy() if self._whole else tuple(part.copy() for part in observations)

    def _infos(self, count: int) -> Info:
        if self.render_mode == "human":
            self.render()
        lanes = self._lanes
        infos = lane_infos(lanes, lanes.columns["mask"]) if lanes.layout.info else {}
        if count:
            over = self._views[2] | self._views[3]
            episode: Info = {}
            if self.statistics:
                ended = {"r": lanes.columns["last_return"], "l": lanes.columns["last_length"]}
                episode = {"episode": _batch_infos(ended, over), "_episode": over}
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                infos.update(final_info(lanes, over, episode, tuple_valued=not self._whole))
            infos.update(episode)
        return infos

    def _refuse(self, code: int) -> None:
        if code <= driver.ENDED:
            raise reset_needed(driver.ENDED - code)
        lane = -1 - code
        action = self._action[lane]
        raise InvalidAction(
            f"lane {lane}: action {action} is outside {self.single_action_space}.",
            action=action,
            space=self.single_action_space,
            lane=lane,
        )

    def _cast(self, actions: Any) -> Array:
        """Actions as an array of the lanes' own kind; integers for Discrete, numbers for Box."""
        array = np.asarray(actions)
        allowed = "biu" if isinstance(self.single_action_space, Discrete) else "biuf"
        if array.shape != self._action.shape or array.dtype.kind not in allowed:
            raise InvalidAction(
                f"actions of shape {array.shape} and type {array.dtype} for {self.num_envs} lanes of "
                f"{self.single_action_space}; expected {self._action.dtype}{list(self._action.shape)}.",
                action=actions,
                space=self.action_space,
            )
        return array

    def state(self) -> tuple[State, ...]:
        return tuple(self._of_lane(lane, partial(self._state_of, lane)) for lane in range(self.num_envs))

    def _state_of(self, lane: int) -> State:
        columns = self._lanes.columns
        episode = f"{self._name}-{lane}-{columns['episodes'][lane]}" if self._began else None
        return State(episode, int(columns["steps"][lane]), read_public_state(self._single))

    def snapshot(self) -> bytes:
        """All lanes as bytes, for ``restore`` of lanes made with the same arguments."""
        if not self._began:
            raise ResetNeeded("Lanes have no state before the first reset().")
        return encode_lanes(self._lanes)

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; anything else raises InvalidSnapshot and changes nothing."""
        decode_lanes(self._lanes, snapshot)
        self._began = True
        self._follow_lanes()

    def render(self) -> tuple[Any, ...] | None:
        """One frame or text per lane; in mode ``human`` one window with the lanes side by side."""
        if self.render_mode is None:
            return self._single.render()  # type: ignore[no-any-return]  # warns
        if not self._began:
            raise ResetNeeded("Cannot call `env.render()` before calling `env.reset()`.")
        if self.render_mode == "human":
            lanes = range(min(self.num_envs, LANES_SHOWN))
            self._window.show(tile([self._of_lane(lane, self._single.paint) for lane in lanes]))
            return None
        return tuple(self._of_lane(lane, self._single.render) for lane in range(self.num_envs))

    def _of_lane(self, lane: int, look: Callable[[], Any]) -> Any:
        if self._began:
            self._single.kernel_state = self._lanes.get_state(lane)
        return look()

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Each lane's attribute."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute in every lane: one value for all, or one per lane as a list or tuple. Params are shared."""
        values, params = value_per_lane(values, self.num_envs), self._lanes.params
        if name == "np_random":
            for lane, generator in enumerate(values):
                self._lanes.use_generator(lane, generator)
            return
        if not hasattr(type(self._single), name) and not hasattr(self._single, name):
            raise AttributeError(f"Lanes have no attribute {name!r}, and can't get one: they are rows of arrays.")
        if name in params._fields and any(value is not values[0] and value != values[0] for value in values):
            raise InvalidLanes(f"Lanes share {name}: pass one value for all of them.")
        for lane, value in enumerate(values):
            self._in_lane(lane, partial(setattr, self._single, name, value))
            if self._lanes.params is not params:  # what it changed is shared, so the first lane did it for all
                if any(other is not value and other != value for other in values):
                    raise InvalidLanes(f"Lanes share {name}: pass one value for all of them.")
                return

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Each lane's attribute, called with the arguments if it is callable."""
        if name == "np_random" and self._began:
            return tuple(self._lanes.generator(lane) for lane in range(self.num_envs))

        def read() -> Any:
            value = getattr(self._single, name)
            return value(*args, **kwargs) if callable(value) else value

        return tuple(self._in_lane(lane, read) for lane in range(self.num_envs))

    def _in_lane(self, lane: int, act: Callable[[], Any]) -> Any:
        """Act on the single environment in a lane's state; the lane takes over what changes."""
        single, lanes = self._single, self._lanes
        if self._began:
            single.kernel_state = lanes.get_state(lane)
        result = act()
        if self._began:
            lanes.set_state(lane, single.kernel_state)
        if single.kernel is not lanes.kernel:
            lanes.use_kernel(single.kernel)
            if self._began:
                self._follow_lanes()
        if single._params is not lanes.params:
            lanes.set_params(single._params)
            if self._began:
                self._follow_lanes()
        return result

    def __getstate__(self) -> dict[str, Any]:
        # Addresses belong to this process and these arrays: a copy makes its own and continues from a snapshot.
        return {
            "arguments": self._arguments,
            "params": self._single._params,
            "kernel": self._single.kernel,
            "snapshot": self.snapshot() if self._began else None,
            "spec": self.spec,
        }

    def __setstate__(self, fields: dict[str, Any]) -> None:
        self.__init__(**fields["arguments"])  # type: ignore[misc]
        self.spec = fields["spec"]
        self._single.use_kernel(fields["kernel"])
        self._single.set_params(fields["params"])
        self._lanes.use_kernel(fields["kernel"])
        self._lanes.set_params(fields["params"])
        if fields["snapshot"] is not None:
            self.restore(fields["snapshot"])

    def close_extras(self, **kwargs: Any) -> None:
        if self._threads is not None:
            self._threads.close()
        self.__dict__.pop("step", None)
        self._run = self._refuse_closed
        self._window.close()
        self._single.close()


def quick_step(env: KernelVectorEnv) -> Callable[[Any], tuple[Any, Array, Array, Array, Info]]:
    """``env.step`` with all that it touches in local variables: a third faster at eight lanes."""
    action, dtype, shape, run, address, copy = env._action, env._dtype, env._shape, env._run, env._address, env.copy
    observations, reward, terminated, truncated = env._views
    ndarray = np.ndarray

    def step(actions: Any) -> tuple[Any, Array, Array, Array, Info]:
        if type(actions) is not ndarray or actions.dtype is not dtype or actions.shape != shape:
            actions = env._cast(actions)
        action[...] = actions
        count = run(address)
        if count < 0:
            env._refuse(count)
        if copy:
            return observations.copy(), reward.copy(), terminated.copy(), truncated.copy(), {}
        return observations, reward, terminated, truncated, {}

    return step


def vector_class(kernel: Kernel, name: str = "KernelVectorEnvironment") -> type[KernelVectorEnv]:
    """A VectorEnv class for a kernel that has none of its own."""
    members = {"env_type": env_class(kernel), "__module__": kernel.step.__module__}
    return type(name, (KernelVectorEnv,), members)


def lane_infos(lanes: Lanes, mask: Array) -> dict[str, Any]:
    """What ``info`` returned for the lanes in ``mask``, batched as Gymnasium does.

    A key has its array, and ``_key`` says which lanes have it.
    """
    return _batch_infos({c.name: lanes.columns[f"info_{c.name}"] for c in lanes.layout.info}, mask)


def final_info(lanes: Lanes, over: Array, episode: dict[str, Any], *, tuple_valued: bool) -> dict[str, Any]:
    """The last observation and info of the lanes that ended and have begun their next episode."""
    # Hot where episodes are short: the rows of all lanes that ended are copied at once.
    parts = [_rows(lanes.columns[f"final_obs_{at}"][over]) for at in range(len(lanes.layout.observation))]
    last = np.empty(lanes.count, dtype=object)
    rows = zip(*parts, strict=True) if tuple_valued else parts[0]
    for lane, row in zip(over.nonzero()[0].tolist(), rows, strict=True):
        last[lane] = row
    inner = _batch_infos({c.name: lanes.columns[f"final_info_{c.name}"] for c in lanes.layout.info}, over)
    return {"final_obs": last, "_final_obs": over, "final_info": {**inner, **episode}, "_final_info": over.copy()}


def _rows(part: Array) -> list[Any]:
    return list(part) if part.ndim > 1 else part.tolist()


def _batch_infos(columns: dict[str, Array], mask: Array) -> dict[str, Any]:
    infos: dict[str, Any] = {}
    if not columns:
        return infos
    everywhere = mask.all()
    for name, column in columns.items():
        rows = column.copy()
        if not everywhere:
            rows[~mask] = 0
        infos[name], infos[f"_{name}"] = rows, mask.copy()
    return infos


def tile(pictures: Sequence[Any]) -> Any:
    """Draw the pictures of several lanes side by side on one Surface, smaller if they would not fit a display."""
    pygame = load_pygame()
    columns = math.ceil(math.sqrt(len(pictures)))
    rows = math.ceil(len(pictures) / columns)
    width, height = as_surface(pictures[0]).get_size()
    scale = min(1.0, LARGEST_GRID[0] / (columns * width), LARGEST_GRID[1] / (rows * height))
    tile = max(1, int(width * scale)), max(1, int(height * scale))
    grid = pygame.Surface((columns * tile[0], rows * tile[1]), depth=32)
    for at, picture in enumerate(pictures):
        place = (at % columns * tile[0], at // columns * tile[1])
        grid.blit(pygame.transform.smoothscale(as_surface(picture), tile), place)
    return grid
