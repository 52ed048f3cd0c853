"""Environments that live elsewhere: messages, codec, Host, channels and the client. Nothing here knows making."""
