"""URLs: each scheme reaches redis-py as what it means there."""

from __future__ import annotations

import pytest
import redis
import redis.asyncio
from redis.connection import SSLConnection, UnixDomainSocketConnection

import amemdb
import amemdb.asyncio
from amemdb.client.urls import SCHEMES, redis_url


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("amemdb://u:p%40@h:7000/3?socket_timeout=2", "redis://u:p%40@h:7000/3?socket_timeout=2"),
        ("amemdbs://h", "rediss://h"),
        ("AMEMDB://h", "redis://h"),
        ("redis://[::1]:7000/0", "redis://[::1]:7000/0"),
        ("rediss://h?ssl_ca_certs=/a%20b", "rediss://h?ssl_ca_certs=/a%20b"),
        ("hotkv://h:7000/1", "redis://h:7000/1"),
        ("hotkv://h?connect_timeout=2&command_timeout=3", "redis://h?socket_connect_timeout=2&socket_timeout=3"),
        ("hotkv://h?tls_ca_file=/a%20b", "rediss://h?ssl_ca_certs=%2Fa+b"),
        ("hotkvs://h?tls_insecure_skip_verify=1", "rediss://h?ssl_cert_reqs=none&ssl_check_hostname=no"),
        ("hotkvs://h?tls_insecure_skip_verify=0", "rediss://h"),
        ("hotkv://h?tls_insecure_skip_verify=1", "redis://h"),
        ("unix:///run/amemdb.sock?db=2", "unix:///run/amemdb.sock?db=2"),
        ("unix://user@/run/amemdb.sock", "unix://user@/run/amemdb.sock"),
    ],
)
def test_a_url_as_redis_py_has_it(url: str, meant: str) -> None:
    assert redis_url(url) == meant


@pytest.mark.parametrize("url", ["http://h", "h:6379", "", "redis:/h", "amemdb:h", "redis://h/first", "amemdb://h/-1"])
def test_what_is_no_url_of_ours_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        redis_url(url)


def test_a_refusal_does_not_show_a_password() -> None:
    with pytest.raises(ValueError) as refused:
        redis_url("postgres://user:s3cret@host")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_both_clients_take_every_scheme(scheme: str) -> None:
    url = "unix:///run/amemdb.sock" if scheme == "unix" else f"{scheme}://me:pass@example.test:7000/2"
    for client in (amemdb.from_url(url), amemdb.asyncio.from_url(url), amemdb.Client.from_url(url)):
        given = client.connection_pool.connection_kwargs
        expected = {"path": "/run/amemdb.sock"}
        if scheme != "unix":
            expected = {"host": "example.test", "port": 7000, "db": 2, "username": "me", "password": "pass"}
        assert {name: given[name] for name in expected} == expected
    kind = amemdb.from_url(url).connection_pool.connection_class
    assert issubclass(kind, SSLConnection) == (scheme in ("amemdbs", "rediss", "hotkvs"))
    assert issubclass(kind, UnixDomainSocketConnection) == (scheme == "unix")


def test_the_clients_are_those_of_redis_py() -> None:
    assert isinstance(amemdb.from_url("amemdb://h", max_connections=3), redis.Redis)
    assert isinstance(amemdb.asyncio.from_url("amemdb://h"), redis.asyncio.Redis)
