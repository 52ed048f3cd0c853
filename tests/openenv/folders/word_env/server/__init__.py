"""The server of word_env."""
