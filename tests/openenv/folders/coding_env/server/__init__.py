"""The server of coding_env."""
