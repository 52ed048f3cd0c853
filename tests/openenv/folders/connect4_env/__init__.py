"""connect4_env, as OpenEnv"s environments are laid out."""

from .client import Connect4Env
from .models import Connect4Action, Connect4Observation

__all__ = ["Connect4Action", "Connect4Env", "Connect4Observation"]
