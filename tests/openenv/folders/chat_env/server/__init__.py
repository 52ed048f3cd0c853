"""The server of chat_env."""
