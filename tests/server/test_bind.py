"""Addresses: what can be listened on, and what is said when it cannot."""

from __future__ import annotations

import socket

import pytest

from amemdb.server.listener import ListenError, address_text, bind


def close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def test_port_0_picks_a_free_one_shared_by_all_addresses_of_a_name():
    sockets = bind("localhost", 0)
    ports = {sock.getsockname()[1] for sock in sockets}
    close(sockets)
    assert len(ports) == 1
    assert 0 not in ports


def test_a_port_in_use_is_said_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=rf"127\.0\.0\.1:{port}: another program uses this port.*--port"):
            bind("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("203.0.113.77", "Set --host to an address of this machine"),
        ("a" * 300, "--host"),
    ],
)
def test_an_address_that_is_not_ours_is_said_with_what_to_do(host, text):
    with pytest.raises(ListenError, match=text):
        bind(host, 0)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (("127.0.0.1", 80), "127.0.0.1:80"),
        (("::1", 80, 0, 0), "[::1]:80"),
        (None, "?:0"),
        ("", "?:0"),
    ],
)
def test_addresses_as_client_list_shows_them(address, text):
    assert address_text(address) == text
