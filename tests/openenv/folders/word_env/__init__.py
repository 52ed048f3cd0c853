"""word_env, as OpenEnv"s environments are laid out."""

from .client import WordEnv
from .models import WordAction, WordObservation

__all__ = ["WordAction", "WordEnv", "WordObservation"]
