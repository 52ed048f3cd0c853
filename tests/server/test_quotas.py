"""Quotas of tokens and tenants: sessions, requests, CPU time, memory, and how long to wait."""

import time
from collections import Counter
from types import SimpleNamespace

import pytest

from paddock.errors import PlanError
from paddock.server.auth import Principal, Quotas, Tokens, role_of, tenant_of
from paddock.server.native_socket import Toll
from paddock.server.processes import Processes
from paddock.server.settings import Quota, Settings
from tests.server.clients import Native
from tests.server.in_process import vault_server
from tests.server.raw_peers import CLOSE
from tests.server.serving import wait_until

ANN, BEN, EVE = (Principal(name, "operator") for name in ("operator-a@vision", "operator-b@vision", "operator-e"))


class Live:
    """A session as far as quotas look at one."""

    def __init__(self, principal, age_s=0.0, memory=0, cpu_s=0.0):
        self.principal, self.began_s = principal.name, time.monotonic() - age_s
        self.memory, self.cpu_s = memory, cpu_s

    def usage(self):
        return self.memory, self.cpu_s


def quotas(processes=None, **settings):
    return Quotas(Settings(**settings), processes or Processes())


def full(own, principal, **sessions):
    names = {"ann": ANN.name, "ben": BEN.name, "eve": EVE.name}
    return own.why_full(principal, Counter({names[name]: count for name, count in sessions.items()}))


def test_a_tenants_sessions_are_counted_over_its_tokens():
    own = quotas(tenants={"vision": Quota(sessions=3)})
    assert full(own, ANN, ann=1, ben=1) is None
    assert full(own, ANN, ann=1, ben=2).reason == full(own, BEN, ben=3).reason == "tenant"
    assert full(own, EVE, ann=1, ben=2, eve=9) is None
    assert own.has_all(ANN, Counter({BEN.name: 3})) and not own.has_all(EVE, Counter({BEN.name: 3}))


def test_a_tenants_requests_are_counted_over_its_tokens_and_each_token_has_its_own_rate():
    own = quotas(rate_per_s=3.0, tenants={"vision": Quota(rate=4.0)})
    assert [own.wait_s(ANN.name, 0.0) for _ in range(3)] == [0.0] * 3
    assert own.wait_s(ANN.name, 0.0) > 0
    assert own.wait_s(BEN.name, 0.0) == 0.0  # what Ann's own rate refused is not charged to the tenant
    assert own.wait_s(BEN.name, 0.0) > 0
    assert own.wait_s(EVE.name, 0.0) == 0.0
    assert own.charge(BEN.name, 100.0, 6) == pytest.approx(1.0)  # its own rate: three more than it may
    assert own.charge(ANN.name, 100.0, 2) == pytest.approx(1.0)  # the tenant's: four more


def test_a_tenant_with_a_low_rate_pays_for_one_request_at_a_time_since_many_would_end_its_connection():
    service = SimpleNamespace(quotas=quotas(tenants={"vision": Quota(rate=10.0)}))
    assert (Toll(service, ANN, None).lot, Toll(service, EVE, None).lot) == (1, 30)


def test_who_has_used_its_cpu_time_opens_nothing_and_far_beyond_loses_what_used_most():
    own = quotas(tenants={"vision": Quota(cpu=100.0)})
    small, large = Live(ANN, cpu_s=30.0), Live(BEN, cpu_s=71.0)
    assert list(own.measure([small, large])) == []
    refused = full(own, ANN)
    assert refused.reason == "cpu" and refused.wait_s == pytest.approx(36.0, abs=0.5)
    assert "100 s per hour. Try again in 36 s" in refused.text and full(own, EVE) is None
    assert list(own.measure([small, large])) == []  # what was charged is not charged again
    large.cpu_s = 85.0
    ((ended, reason, text),) = own.measure([small, large])
    assert (ended, reason) == (large, "cpu") and "100 CPU seconds" in text
    large.cpu_s = 95.0
    own.end(large)  # and what it used since
    assert full(own, ANN).wait_s == pytest.approx(25 * 36.0, abs=0.5)


def test_a_tenant_above_its_memory_loses_its_largest_session():
    own = quotas(tenants={"vision": Quota(memory=100.0)}, memory_each=80.0)
    small, large, other = Live(ANN, memory=30_000_000), Live(BEN, memory=60_000_000), Live(EVE, memory=70_000_000)
    assert list(own.measure([small, large, other])) == [] and full(own, ANN) is None
    small.memory = 50_000_000
    ((ended, reason, _),) = own.measure([small, large, other])
    assert (ended, reason) == (large, "memory")
    assert full(own, ANN).reason == full(own, BEN).reason == "memory" and full(own, EVE) is None
    other.memory = 81_000_000
    assert [one[0] for one in own.measure([other])] == [other] and full(own, EVE).reason == "memory"


def test_above_the_servers_memory_nobody_opens_a_session_and_the_largest_ends():
    own = quotas(max_memory=100.0)
    small, large = Live(ANN, memory=30_000_000), Live(EVE, memory=60_000_000)
    assert list(own.measure([small, large])) == [] and full(own, BEN) is None
    small.memory = 45_000_000
    assert [one[:2] for one in own.measure([small, large])] == [(large, "memory")]
    assert full(own, BEN).text == "The server uses all of its memory, 100 MB. Close a session."
    assert own.wait_s(ANN.name, 0.0) == 0.0 and own.charge(ANN.name, 0.0, 1) == 0.0


def test_memory_of_all_processes_counts_and_only_the_largest_session_of_them_ends():
    first, second = Processes(2), Processes(2)
    second.index, second._memory, second._lock, second._loads = 1, first._memory, first._lock, first._loads
    here, there = (quotas(one, tenants={"vision": Quota(memory=100.0)}) for one in (first, second))
    small, large = Live(ANN, memory=45_000_000), Live(BEN, memory=60_000_000)
    assert list(here.measure([small])) == []
    assert [one[0] for one in there.measure([large])] == [large]
    assert list(here.measure([small])) == [] and full(here, ANN).reason == "memory"
    first.dispose()


def test_the_wait_is_told_once_sessions_have_ended():
    own = quotas(max_sessions=4)
    assert full(own, EVE, eve=4) == ("capacity", "All 4 sessions are in use. Try again later.", None)
    for age_s in (50.0, 70.0):
        own.end(Live(EVE, age_s))
    list(own.measure([Live(EVE, 60.0), Live(EVE, 60.0)]))  # 240 s, in which two have ended
    refused = full(own, EVE, eve=4)
    assert refused.wait_s == pytest.approx(30.0, abs=0.5) and refused.text.endswith("likely to end in about 30 s.")


def test_tokens_of_a_tenant_are_known_by_their_names(tmp_path):
    file = tmp_path / "tokens"
    file.write_text("operator@vision 0123456789abcdef-a\nagent@vision 0123456789abcdef-b\n0123456789abcdef-c\n")
    tokens = Tokens.from_file(file, ("vision",))
    found = [tokens.principal(f"Bearer 0123456789abcdef-{one}").name for one in "abc"]
    assert [role_of(name) for name in found] == ["operator", "agent", "operator"]
    assert [tenant_of(name) for name in found] == ["vision", "vision", ""]
    file.write_text("operator@secret-secret-secret 0123456789abcdef-a\n")
    with pytest.raises(PlanError, match="line 1: there is no such tenant. There are: vision") as error:
        Tokens.from_file(file, ("vision",))
    assert "secret" not in str(error.value)


@pytest.mark.process
def test_a_full_server_says_in_how_many_seconds_a_session_is_likely_to_end(tmp_path):
    with vault_server(tmp_path, max_sessions=1) as server, server.peer() as peer:
        server.service.quotas._lengths.append(3000.0)
        wait_until(lambda: server.service.quotas._lived_s)
        Native(peer)
        with server.peer("other") as other:
            answer = other.ask("POST", "/reset", body={})
            assert answer.status == 503 and 2900 < int(answer.headers["retry-after"]) < 3100
            assert "likely to end in about 30" in answer.json["detail"]


@pytest.mark.process
def test_a_token_that_computes_far_too_much_loses_its_session_and_both_metrics_and_audit_say_so(tmp_path, caplog):
    with vault_server(tmp_path, cpu_each=0.001) as server, server.peer() as peer, server.peer("other") as other:
        native = Native(peer)
        opcode, payload = peer.message()
        assert opcode == CLOSE and b"SESSION_GONE: Its token has used far more than 0.001 CPU seconds" in payload
        assert 'paddock_sessions_ended_total{reason="cpu"} 1' in other.ask("GET", "/metrics").body.decode()
        with server.peer() as again:
            refused = again.ask("POST", "/reset", body={})
            assert refused.status == 503 and int(refused.headers["retry-after"]) > 360
    (said,) = (one for one in caplog.records if one.name == "paddock.audit" and "CPU seconds" in one.getMessage())
    assert said.session == native.welcome.session[:8]
