"""The app of connect4_env."""

try:
    from core.env_server import create_fastapi_app
except ImportError:
    from openenv.core.env_server import create_fastapi_app

try:
    from ..models import Connect4Action, Connect4Observation
    from .connect4_environment import Connect4Environment
except ImportError:
    from models import Connect4Action, Connect4Observation
    from server.connect4_environment import Connect4Environment

app = create_fastapi_app(Connect4Environment, Connect4Action, Connect4Observation)
