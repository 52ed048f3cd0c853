"""Policies for Hypothesis: few names, so that two of them often overlap."""

from hypothesis import strategies as st

from paddock.sandbox.policy import Policy

PATHS = st.sampled_from(["/a", "/a/b", "/a/b/c", "/ab", "/d", "//a"])
HOSTS = st.sampled_from(["x.org:443", "y.org:443", "x.org:80", "*:443", "[::1]:80"])
COUNTS = st.integers(1, 3)
SECONDS = st.sampled_from([0.5, 1.0, 2.0])


def tuples(items):
    return st.lists(items, max_size=3).map(tuple)


def policies(deep=2):
    inner = policies(deep - 1) if deep else st.none()
    return st.builds(
        build,
        tier=st.sampled_from(["auto", "sandbox", "landlock"]),
        **dict.fromkeys(("read", "write", "programs"), tuples(PATHS)),
        fresh=st.booleans(),
        devices=tuples(st.sampled_from(["/dev/a", "/dev/a/b", "/dev/c"])),
        hosts=tuples(HOSTS),
        cassette=st.none() | st.sampled_from(["/k", "/l"]),
        **dict.fromkeys(
            ("scratch_mb", "processes", "threads", "memory_mb", "descriptors", "output_kb", "info_kb"), COUNTS
        ),
        cpu_s=st.none() | SECONDS,
        call_s=SECONDS,
        call_cpu_s=SECONDS,
        start_s=SECONDS,
        variables=st.dictionaries(st.sampled_from("AB"), st.sampled_from(["1", "2"])),
        reward_range=st.tuples(st.integers(-3, 0), st.integers(0, 3)),
        workspaces=st.integers(0, 2),
        workspace=inner | st.none(),
    )


def build(*, workspaces, workspace, **fields):
    return Policy(**fields, workspace=workspace, workspaces=workspaces if workspace is not None else 0)


# A value for each field that means something else than WORKED's.
OTHER = {
    "tier": "landlock",
    "read": ("/data",),
    "write": ("/out",),
    "scratch_mb": 7,
    "hosts": ("api.example.com:443",),
    "cassette": "/tape",
    "programs": ("/bin/ls",),
    "processes": 2,
    "threads": 3,
    "memory_mb": 512,
    "cpu_s": 5.5,
    "call_s": 0.25,
    "call_cpu_s": 0.125,
    "start_s": 9.0,
    "descriptors": 17,
    "output_kb": 18,
    "variables": {"HOME": "/tmp"},
    "devices": ("/dev/nvidia0",),
    "fresh": True,
    "reward_range": (-1.0, 1.5),
    "info_kb": 19,
    "workspaces": 3,
    "workspace": Policy(hosts=("b:2",)),
}
