"""OpenEnv's wire as pure functions: text in, values out, and back. Nothing here opens a socket."""
