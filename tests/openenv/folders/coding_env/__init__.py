"""coding_env, as OpenEnv"s environments are laid out."""

from .client import CodingEnv
from .models import CodeAction, CodeObservation

__all__ = ["CodeAction", "CodeObservation", "CodingEnv"]
