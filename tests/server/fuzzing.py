"""What strangers send, and what it may cost: any JSON, time of the server's thread, words that it must not say."""

from hypothesis import strategies as st

from tests.server.in_process import SECRET

LIMIT_S, LIMIT_S_PER_BYTE = 0.1, 1e-8  # of the server's own thread; it takes bytes in as they come, in small parts

LEAKS = (SECRET, "hunter2-", "/home/", "Traceback", "site-packages", "vault_env")

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["step", "reset", "state", "mcp", "action", "seed", "options", "secret", "__class__"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
