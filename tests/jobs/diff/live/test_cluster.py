"""Addresses of running clusters, and why none of them answers."""

from __future__ import annotations

import pytest

from brokerless.errors import ClusterError, UsageError
from brokerless.jobs.diff.live import cluster
from brokerless.jobs.diff.live.cluster import connect


@pytest.mark.parametrize("address", ["host:99999", "host:0", "host:65536", "one:9092,two:x", "host:", "[::1]:70000"])
def test_a_port_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="is no port; give kafka://HOST:PORT"):
        connect(f"kafka://{address}")


@pytest.mark.parametrize(("client", "has_advice"), [({}, True), ({"security.protocol": "SASL_SSL"}, False)])
def test_an_error_says_how_to_log_in_where_no_client_settings_are_given(
    client: dict[str, str], has_advice: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise ClusterError("host:9092: 2/2 brokers are down")

    monkeypatch.setattr(cluster.ClusterConnection, "open", fail)
    for address in ("host:9092", "[::1]:9092", "one:9092,two:9092", "host"):
        with pytest.raises(ClusterError, match="2/2 brokers are down") as refused:
            connect(f"kafka://{address}", client)
        assert ("if its listener needs TLS or a login, give the client's settings" in str(refused.value)) == has_advice


def test_an_error_with_advice_of_its_own_gets_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise ClusterError("host:9092: no broker answers here; see --command-config", has_remedy=True)

    monkeypatch.setattr(cluster.ClusterConnection, "open", fail)
    with pytest.raises(ClusterError, match=r"no broker answers here; see config=$"):
        connect("kafka://host:9092")
