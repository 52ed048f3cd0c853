"""The client's end of a websocket (RFC 6455): bytes in, events out, and two ways to carry the bytes. No extensions."""
