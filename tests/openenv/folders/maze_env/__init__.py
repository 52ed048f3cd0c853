"""maze_env, as OpenEnv"s environments are laid out."""

from .client import MazeEnv
from .models import MazeAction, MazeObservation

__all__ = ["MazeAction", "MazeEnv", "MazeObservation"]
