"""The server of echo_env."""
