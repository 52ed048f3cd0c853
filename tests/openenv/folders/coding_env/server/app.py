"""The app of coding_env, made by a factory function."""

from openenv.core.env_server import create_app

from coding_env.models import CodeAction, CodeObservation
from coding_env.server.python_codeact_env import PythonCodeActEnv


def create_coding_environment():
    """Make one per session."""
    return PythonCodeActEnv()


app = create_app(create_coding_environment, CodeAction, CodeObservation, env_name="coding_env")


def main():
    import uvicorn

    uvicorn.run(app, host="0.0.0.0", port=8000)


if __name__ == "__main__":
    main()
