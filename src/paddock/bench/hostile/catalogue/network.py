"""Attacks on the network. Every address is a listener of the judge's, but for one that no packet is sent to."""

from __future__ import annotations

from paddock.bench.hostile.catalogue.rows import row

NETWORK = (
    row(
        "N01", "connects to a local service", "env network:Connect", "listener", {"host": "127.0.0.1", "port": "$port"}
    ),
    row("N02", "connects over IPv6", "env network:Connect", "listener", {"host": "::1", "port": "$port6"}),
    row(
        "N03",
        "connects to a machine's address",
        "env network:Connect",
        "listener",
        {"host": "$lan", "port": "$lan_port"},
    ),
    row("N04", "looks for the cloud's metadata", "env network:Route", "claim"),
    row(
        "N05",
        "carries data out by names",
        "env network:AskName",
        "listener",
        {"host": "$host", "datagram_port": "$datagram_port"},
    ),
    row(
        "N06",
        "connects to an abstract socket",
        "env network:ConnectUnix",
        "listener",
        {"path": "$abstract", "abstract": 1},
    ),
    row("N07", "connects to a socket file", "env network:ConnectUnix", "listener", {"path": "$unix", "abstract": 0}),
    row("N08", "opens a raw socket", "env network:OpenSocket", "claim", {"socket": [2, 3, 1]}, control_root=True),
    row("N09", "opens a packet socket", "env network:OpenSocket", "claim", {"socket": [17, 3, 768]}, control_root=True),
    row("N10", "opens a vsock", "env network:OpenSocket", "claim", {"socket": [40, 1, 0]}),
    row("N11", "opens a netlink socket", "env network:OpenSocket", "claim", {"socket": [16, 3, 0]}),
    row("N12", "opens a door to the host", "env network:Listen", "listener", {"free_port": "$free_port"}),
    row(
        "N13",
        "turns inherited sockets around",
        "env network:ReuseSockets",
        "listener",
        {"host": "$host", "port": "$port"},
    ),
    row(
        "N14",
        "asks the proxy for another host",
        "env network:AskForProxy",
        "listener",
        {"host": "$host", "port": "$port"},
        policy={"hosts": ["example.com:443"]},
        expected=frozenset({"denied", "contained", "refused"}),
    ),
)
