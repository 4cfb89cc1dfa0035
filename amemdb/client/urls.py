"""URLs: which ones a client takes, and what redis-py is told of them.

`amemdb`, `hotkv` and `redis` are the same, plain TCP; with an `s` behind, TLS; `unix` names a socket. A HotKV URL may
hold the options of HotKV's own client, which redis-py knows by other names.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

SCHEMES = {
    "amemdb": "redis",
    "amemdbs": "rediss",
    "redis": "redis",
    "rediss": "rediss",
    "hotkv": "redis",
    "hotkvs": "rediss",
    "unix": "unix",
}
"""The scheme of a URL, and the one that means the same to redis-py."""

_TRUE = {"1", "true", "yes", "on"}
_HOTKV_OPTIONS = {
    "connect_timeout": "socket_connect_timeout",
    "command_timeout": "socket_timeout",
    "tls_ca_file": "ssl_ca_certs",
    "tls_certfile": "ssl_certfile",
    "tls_keyfile": "ssl_keyfile",
}
_HOTKV_TLS_FILES = {"tls_ca_file", "tls_certfile", "tls_keyfile"}


def redis_url(url: str) -> str:
    """`url` for redis-py; `ValueError` for what would be misread."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme not in SCHEMES or not url[len(scheme) :].startswith("://"):
        expected = ", ".join(f"{name}://" for name in SCHEMES)
        raise ValueError(f"a URL must begin with one of {expected}; got {_without_login(url)!r}")
    database = unquote(parts.path).strip("/")
    if scheme != "unix" and database and not (database.isascii() and database.isdigit()):
        raise ValueError(f"the path of a URL is the number of a database, got {database!r}")
    rest = url[len(scheme) + len("://") :]
    if scheme not in ("hotkv", "hotkvs"):
        return f"{SCHEMES[scheme]}://{rest}"
    options = parse_qsl(parts.query, keep_blank_values=True)
    secure = scheme == "hotkvs" or any(name in _HOTKV_TLS_FILES for name, _ in options)
    query = urlencode([pair for name, value in options for pair in _translated(name, value, secure)])
    address = rest.partition("#")[0].partition("?")[0]
    return f"{'rediss' if secure else 'redis'}://{address}{'?' if query else ''}{query}"


def _translated(name: str, value: str, secure: bool) -> list[tuple[str, str]]:
    if name == "tls_insecure_skip_verify":
        insecure = secure and value.strip().lower() in _TRUE
        return [("ssl_cert_reqs", "none"), ("ssl_check_hostname", "no")] if insecure else []
    if name == "tls_server_hostname":
        raise ValueError("tls_server_hostname is not supported: the certificate must be for the host of the URL")
    return [(_HOTKV_OPTIONS.get(name, name), value)]


def _without_login(url: str) -> str:
    """A URL that can be shown: what stands before an `@` may hold a password."""
    return url.rpartition("@")[2][:200]
