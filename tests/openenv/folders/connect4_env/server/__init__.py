"""The server of connect4_env."""
