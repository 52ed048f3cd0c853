"""The server of typed_env."""
