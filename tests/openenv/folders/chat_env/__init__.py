"""chat_env, as OpenEnv"s environments are laid out."""

from .client import ChatEnv
from .models import ChatAction, ChatObservation

__all__ = ["ChatAction", "ChatEnv", "ChatObservation"]
