"""Where a proxy connects to: the hosts of the policy, at the address that was judged, and nowhere else."""

import asyncio
import ipaddress
import socket
import time

import pytest

from paddock.sandbox import proxy as destinations
from paddock.sandbox.http1 import Refused
from paddock.sandbox.proxy import Destinations, is_public, parse_address
from tests.sandbox.web import PATIENCE_S, proxied, raw, say, status, web

PUBLIC = "93.184.216.34"


def resolver(*answers):
    """A getaddrinfo that gives the next list of addresses at each call; ``asked`` is what it was asked."""
    remaining = iter(answers)

    def look_up(host, *args, **options):
        look_up.asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in next(remaining)]

    look_up.asked = []
    return look_up


def addresses(hosts, host, port=80):
    where = Destinations(hosts)
    where.permit(host, port)
    found = asyncio.run(where.addresses(host, port, time.monotonic() + PATIENCE_S))
    return [str(one) for one in found]


@pytest.mark.parametrize(
    ("hosts", "host", "port"),
    [
        (["example.com:80"], "example.com", 80),
        (["Example.COM:80"], "example.com", 80),
        (["*:443"], "anything.example", 443),
        (["[::1]:80"], "0:0:0:0:0:0:0:1", 80),
        (["127.0.0.1:80"], "::ffff:127.0.0.1", 80),
    ],
)
def test_named_hosts_are_permitted(hosts, host, port):
    Destinations(hosts).permit(host, port)


@pytest.mark.parametrize(
    ("hosts", "host", "port"),
    [
        ([], "example.com", 80),
        (["example.com:80"], "example.com", 81),
        (["example.com:80"], "a.example.com", 80),
        (["example.com:80"], "example.com.evil.org", 80),
        (["example.com:80"], "evilexample.com", 80),
        (["*:443"], "example.com", 80),
        (["[::1]:80"], "::2", 80),
        (["127.0.0.1:80"], "localhost", 80),
        (["localhost:80"], "127.0.0.1", 80),
    ],
)
def test_others_are_refused(hosts, host, port):
    with pytest.raises(Refused, match="the permission hosts does not name") as caught:
        Destinations(hosts).permit(host, port)
    assert (caught.value.status, caught.value.verdict) == (403, "refused")


# fmt: off
NOT_PUBLIC = [
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1",
    "192.0.2.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "198.18.0.1", "::", "::1", "fe80::1", "fc00::1",
    "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::7f00:1", "64:ff9b::7f00:1",
    "64:ff9b:1::a00:1", "2002:7f00:1::", "2001:0:1::1", "2001:db8::1",
]
# fmt: on


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_addresses_off_the_public_internet_are_told(text):
    assert not is_public(parse_address(text))


@pytest.mark.parametrize("text", [PUBLIC, "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are_told(text):
    assert is_public(parse_address(text))


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.0.0.7", "0.0.0.0"])
@pytest.mark.parametrize("hosts", [["rebound.example:80"], ["*:80"]])
def test_a_name_that_points_inwards_is_refused(monkeypatch, address, hosts):
    monkeypatch.setattr(socket, "getaddrinfo", resolver([address]))
    with pytest.raises(Refused, match="is not on the public internet") as caught:
        addresses(hosts, "rebound.example")
    assert address not in caught.value.text  # what a host's names mean is not told


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "169.254.169.254", "::1", "127.1", "2130706433"])
def test_any_name_does_not_mean_this_machine(host):
    with pytest.raises(Refused, match="is not on the public internet"):
        addresses(["*:80"], host)


def test_addresses_that_the_policy_names_are_reached():
    assert addresses(["10.0.0.7:80"], "10.0.0.7") == ["10.0.0.7"]
    assert addresses(["[fd00::7]:80"], "fd00::7") == ["fd00::7"]
    assert set(addresses(["localhost:80"], "localhost")) <= {"127.0.0.1", "::1"}


def test_localhost_means_loopback_whatever_the_resolver_says(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", resolver(["10.0.0.7"]))
    with pytest.raises(Refused):
        addresses(["localhost:80"], "localhost")


def test_only_the_public_ones_of_several_addresses_are_used(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", resolver(["127.0.0.1", PUBLIC, "10.0.0.1"]))
    assert addresses(["mixed.example:80"], "mixed.example") == [PUBLIC]


def test_addresses_of_this_machine_are_refused_though_public(monkeypatch):
    monkeypatch.setattr(destinations, "is_public", lambda address: True)
    monkeypatch.setattr(socket, "getaddrinfo", resolver(["127.0.0.1"]))
    with pytest.raises(Refused):
        addresses(["me.example:80"], "me.example")


def test_a_name_is_looked_up_once_and_connected_to_where_it_was_judged(monkeypatch):
    """DNS rebinding: the second answer of the name would be this machine."""
    look_up = resolver([PUBLIC], ["127.0.0.1"])
    connected = []

    async def connect(found, port, deadline):
        connected.append(([str(one) for one in found], port))

    with web() as server, proxied(f"rebound.example:{server.port}") as proxy:
        monkeypatch.setattr("paddock.sandbox.proxy.connect", connect)
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        answer = say_to_literal(proxy, f"GET http://rebound.example:{server.port}/ HTTP/1.1\r\n\r\n")
        assert status(answer) == 502 and server.seen == []
    assert look_up.asked == ["rebound.example"] and connected == [([PUBLIC], server.port)]


def say_to_literal(proxy, text):
    # socket.create_connection would ask the fake resolver.
    with socket.socket() as sock:
        sock.settimeout(PATIENCE_S)
        sock.connect(("127.0.0.1", proxy.port))
        sock.sendall(text.encode())
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
        return answer


def connected(found, port):
    return asyncio.run(destinations.connect(found, port, time.monotonic() + PATIENCE_S))


def test_connect_is_to_an_address_and_never_to_a_name(monkeypatch):
    with web() as server:
        monkeypatch.setattr(socket, "getaddrinfo", resolver())
        sock = connected([ipaddress.ip_address("127.0.0.1")], server.port)
        assert sock.getpeername() == ("127.0.0.1", server.port)
        sock.close()


def test_the_next_address_is_tried_when_one_does_not_answer():
    with web() as server:
        tried = [ipaddress.ip_address("127.0.0.2"), ipaddress.ip_address("127.0.0.1")]
        sock = connected(tried, server.port)
        assert sock.getpeername()[0] == "127.0.0.1"
        sock.close()


def test_a_name_without_an_address_is_said(monkeypatch):
    def nowhere(*args, **options):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    with pytest.raises(Refused, match="nowhere.example has no address") as caught:
        addresses(["*:80"], "nowhere.example")
    assert caught.value.status == 502


def test_a_label_that_is_too_long_is_no_fault():
    with pytest.raises(Refused, match="has no address"):
        addresses(["*:80"], "a" * 70 + ".example")


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_the_metadata_service_is_not_reached_by_any_name(method):
    target = "169.254.169.254:80" if method == "CONNECT" else "http://169.254.169.254/latest/meta-data/"
    with proxied("*:80") as proxy:
        answer = say(proxy, f"{method} {target} HTTP/1.1\r\n\r\n".encode())
        assert status(answer) == 403 and proxy.refused == 1


def test_a_trailing_dot_is_no_other_host():
    with raw(lambda server, connection: None) as server, proxied(f"127.0.0.1:{server.port}", "a.example:80") as proxy:
        assert status(say(proxy, b"GET http://b.example./ HTTP/1.1\r\n\r\n")) == 403
        assert proxy.log[0].host == "b.example"
