"""The app of word_env. It runs as a module of the package only."""

from openenv.core.env_server.http_server import create_app

from ..models import WordAction, WordObservation, WordState
from .word_environment import WordEnvironment

app = create_app(WordEnvironment, WordAction, WordObservation, env_name="word game (local)", state_cls=WordState)
