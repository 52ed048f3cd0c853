"""frames_env, as OpenEnv"s environments are laid out."""

from .client import FramesEnv
from .models import FramesAction, FramesObservation

__all__ = ["FramesAction", "FramesEnv", "FramesObservation"]
