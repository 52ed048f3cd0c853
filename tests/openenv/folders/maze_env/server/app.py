"""The app of maze_env: a partial, with what the environment's variables say."""

import os
from functools import partial

from openenv.core.env_server.http_server import create_app

try:
    from ..models import MazeAction, MazeObservation
    from .maze_environment import MazeEnvironment
except ImportError:
    from models import MazeAction, MazeObservation
    from server.maze_environment import MazeEnvironment

SIZE, REWARD = int(os.environ.get("MAZE_SIZE", "3")), float(os.environ.get("MAZE_GOAL_REWARD", "1"))

app = create_app(
    partial(MazeEnvironment, SIZE, goal_reward=REWARD),
    MazeAction,
    MazeObservation,
    env_name="maze_env",
    max_concurrent_envs=4,
)
