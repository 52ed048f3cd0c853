"""The server of maze_env."""
