"""URLs of servers: what they mean, what is refused before anything is touched, and that no token is ever shown."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import PlanError
from paddock.hosting.remote_address import RemoteAddress, is_loopback, parse_address

SECRET = "s3cretTOKEN0123456789"


def parse(url, **options):
    return parse_address(url, environ={}, **options)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://envs.example.org/Maze-v0", RemoteAddress("envs.example.org", 443, True, "/Maze-v0")),
        ("wss://envs.example.org:8443/Maze-v0/", RemoteAddress("envs.example.org", 8443, True, "/Maze-v0")),
        ("http://localhost:8000", RemoteAddress("localhost", 8000, False)),
        ("HTTP://127.0.0.1/", RemoteAddress("127.0.0.1", 80, False)),
        ("ws://[::1]:9/a%2Fb-v1", RemoteAddress("::1", 9, False, "/a%2Fb-v1")),
        ("https://[2001:DB8::1]/x", RemoteAddress("2001:db8::1", 443, True, "/x")),
        ("https://bücher.example/x", RemoteAddress("xn--bcher-kva.example", 443, True, "/x")),
        ("https://h/proxy/Maze-v0", RemoteAddress("h", 443, True, "/proxy/Maze-v0")),
        ("https://h/grün-v0", RemoteAddress("h", 443, True, "/gr%C3%BCn-v0")),
        ("http+unix://%2Frun%2Fp.sock/Maze-v0", RemoteAddress("localhost", 80, False, "/Maze-v0", "/run/p.sock")),
    ],
)
def test_url_is_read(url, address):
    assert parse(url) == address


def test_id_is_the_decoded_end_of_the_path():
    assert parse("https://h/ALE%2FPong-v5").id == "ALE/Pong-v5"
    assert parse("https://h").id is None


def test_endpoint_is_the_environments_websocket():
    endpoint = parse(f"https://{SECRET}@h:1/ALE%2FPong-v5").endpoint()
    assert (endpoint.host, endpoint.port, endpoint.path, endpoint.secure) == ("h", 1, "/ALE%2FPong-v5/ws", True)
    assert (endpoint.subprotocols, endpoint.authorization) == (("paddock.v2", "paddock.v1"), f"Bearer {SECRET}")


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("url", "options", "authorization"),
    [
        ("http://localhost", {}, None),
        (f"http://{SECRET}@localhost", {}, f"Bearer {SECRET}"),
        (f"http://anything:{SECRET}@localhost", {}, basic("anything", SECRET)),
        ("http://a%2Fb%40c@localhost", {}, "Bearer a/b@c"),
        ("http://url@localhost", {"token": SECRET}, f"Bearer {SECRET}"),
        (f"http+unix://{SECRET}@%2Fx", {}, f"Bearer {SECRET}"),
    ],
)
def test_token_comes_from_the_option_or_the_url(url, options, authorization):
    assert parse(url, **options).authorization == authorization


def test_variable_is_asked_last():
    environ = {"PADDOCK_TOKEN": "from-the-variable"}
    assert parse_address("http://localhost", environ=environ).authorization == "Bearer from-the-variable"
    assert parse_address(f"http://{SECRET}@localhost", environ=environ).authorization == f"Bearer {SECRET}"
    assert parse_address("http://localhost", environ={"PADDOCK_TOKEN": ""}).authorization is None


@pytest.mark.parametrize("form", [repr, str, lambda address: repr(address.endpoint())])
def test_token_is_not_shown(form):
    for url in (f"https://{SECRET}@h/x", f"https://u:{SECRET}@h/x"):
        shown = form(parse(url))
        assert SECRET not in shown and base64.b64encode(SECRET.encode()).decode()[:20] not in shown


def test_text_of_an_address_is_its_url_without_the_token():
    assert str(parse(f"https://{SECRET}@h:8/x")) == "https://h:8/x"
    assert str(parse(f"http+unix://{SECRET}@%2Frun%2Fs/x")) == "http+unix://%2Frun%2Fs/x"


@pytest.mark.parametrize("scheme", ["http", "ws"])
def test_plain_http_to_another_machine_is_refused_unless_allowed(scheme):
    for host in ("example.org", "192.168.1.5", "[2001:db8::1]", "localhost.evil.example", "0.0.0.0"):
        with pytest.raises(PlanError, match="TLS is required"):
            parse(f"{scheme}://{SECRET}@{host}/x")
    assert parse(f"{scheme}://192.168.1.5/x", insecure=True).host == "192.168.1.5"


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gopher://h/x",
        "ftp://h/x",
        "javascript://h/x",
        "httpx://h/x",
        "https:///x",
        "https://",
        "https:h/x",
        "//h/x",
        "https://h/x?a=b",
        "https://h/x#a",
        "https://h/x?",
        "https://h:0/",
        "https://h:65536/",
        "https://h:12345678/",
        "https://h:a/",
        "https://h:-1/",
        "https://[fe80::1%25eth0]/",
        "https://[::1/",
        "https://::1/",
        "https://[127.0.0.1]/",
        "https://h ost/",
        "https://h\n/",
        "https://h\t/",
        "https://h\\@evil/",
        "https://-h/",
        "https://h..x/",
        "https://" + "a" * 254 + "/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f.0.0.1/",
        "https://h/a/../b",
        "https://h/%2e%2e/b",
        "https://h/a//b",
        "https://h/%zz",
        "http+unix://relative/x",
        "http+unix://%00/x",
        "https://h/" + "a" * 5000,
    ],
)
def test_urls_that_no_server_has_are_refused(url):
    with pytest.raises(PlanError):
        parse(url)


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX: y", "ä", "x" * 1025])
def test_token_that_is_none_is_refused_and_not_shown(token):
    with pytest.raises(PlanError) as caught:
        parse("http://localhost", token=token)
    assert len(token) < 2 or token not in str(caught.value)


userinfo = st.text(st.characters(codec="ascii", exclude_characters="@/?#\\", min_codepoint=33), max_size=8)
hostile = st.one_of(st.text(max_size=40), st.from_regex(r"[a-z0-9.\[\]:%@/\\-]{0,30}", fullmatch=True))


@given(st.sampled_from(["https", "http", "ws", "wss", "http+unix", "file", ""]), userinfo, hostile)
def test_any_url_is_read_or_refused_and_the_token_never_shown(scheme, user, rest):
    url = f"{scheme}://{user}{SECRET}@{rest}"
    try:
        address = parse(url)
    except PlanError as error:
        shown = str(error)
    else:
        shown = f"{address!r} {address}"
        assert address.secure or address.unix is not None or is_loopback(address.host)
    assert SECRET not in shown
