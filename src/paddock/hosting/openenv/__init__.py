"""OpenEnv's wire as pure functions (text in, values out, and back), and the connections of a client."""
