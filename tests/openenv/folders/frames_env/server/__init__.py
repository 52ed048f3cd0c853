"""The server of frames_env."""
