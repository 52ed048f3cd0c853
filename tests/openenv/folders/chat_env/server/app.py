"""The app of chat_env."""

from openenv_core.env_server import create_app

try:
    from ..models import ChatAction, ChatObservation
    from .chat_environment import ChatEnvironment, Letters
except ImportError:
    from models import ChatAction, ChatObservation
    from server.chat_environment import ChatEnvironment, Letters


def create_chat_environment():
    """Make one with a tokenizer."""
    return ChatEnvironment(tokenizer=Letters(), system_prompt="Be brief.")


app = create_app(create_chat_environment, ChatAction, ChatObservation, env_name="chat_env")
