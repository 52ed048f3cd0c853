"""Clients that a test runs in a process of their own."""

import signal

from paddock.hosting.messages import Resume, Step
from paddock.hosting.remote_address import parse_address
from paddock.hosting.remote_channel import RemoteChannel
from tests.server.serving import Client, together, vanish


def hold(url, token, count):
    """Keep sessions until it is killed."""
    address = parse_address(url, token=token)
    kept = together(lambda canary: Client(address, canary).reset(), range(int(count)))
    print("held", flush=True)
    while kept:
        signal.pause()


def take_over(url, token, session, resume_token, last):
    """Resume a session and step once."""
    channel = RemoteChannel(parse_address(url, token=token), saved=Resume(session, resume_token, int(last)))
    channel.send(Step([0], [9]))
    observation = channel.recv().value[0][0]
    print(observation[0], observation[2])
    vanish(channel)
