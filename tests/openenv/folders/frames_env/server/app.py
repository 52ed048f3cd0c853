"""The app of frames_env, with absolute imports by the package's name."""

from openenv.core.env_server import create_app

from frames_env.models import FramesAction, FramesObservation
from frames_env.server.frames_environment import FramesEnvironment

app = create_app(FramesEnvironment, FramesAction, FramesObservation, env_name="frames_env")
