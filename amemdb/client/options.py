"""The options of a connection, for type checkers: those of redis-py's clients, name by name.

A test compares them with what redis-py takes. `host`, `port`, `db`, `decode_responses` and `connection_pool` are in the
signatures of the clients themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ssl import TLSVersion, VerifyFlags, VerifyMode
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import redis.asyncio.retry
    import redis.retry
    from redis.cache import CacheConfig, CacheInterface
    from redis.credentials import CredentialProvider
    from redis.driver_info import DriverInfo
    from redis.event import EventDispatcher
    from redis.maint_notifications import MaintNotificationsConfig, OSSMaintNotificationsHandler


class ConnectionOptions(TypedDict, total=False):
    """What both clients take."""

    username: str | None
    password: str | None
    credential_provider: CredentialProvider | None
    client_name: str | None
    lib_name: str | None
    lib_version: str | None
    driver_info: DriverInfo | None
    protocol: int | None
    legacy_responses: bool
    encoding: str
    encoding_errors: str
    unix_socket_path: str | None
    socket_timeout: float | None
    socket_connect_timeout: float | None
    socket_read_size: int
    socket_keepalive: bool | None
    socket_keepalive_options: Mapping[int, int | bytes] | None
    health_check_interval: int
    retry_on_timeout: bool
    retry_on_error: list[type[Exception]] | None
    max_connections: int | None
    single_connection_client: bool
    redis_connect_func: Callable[..., Any] | None
    event_dispatcher: EventDispatcher | None
    maint_notifications_config: MaintNotificationsConfig | None
    ssl: bool
    ssl_keyfile: str | None
    ssl_certfile: str | None
    ssl_cert_reqs: str | VerifyMode
    ssl_include_verify_flags: list[VerifyFlags] | None
    ssl_exclude_verify_flags: list[VerifyFlags] | None
    ssl_ca_certs: str | None
    ssl_ca_path: str | None
    ssl_ca_data: str | None
    ssl_check_hostname: bool
    ssl_password: str | None
    ssl_min_version: TLSVersion | None
    ssl_ciphers: str | None


class SyncOptions(ConnectionOptions, total=False):
    """What `amemdb.Client` takes."""

    retry: redis.retry.Retry
    ssl_validate_ocsp: bool
    ssl_validate_ocsp_stapled: bool
    ssl_ocsp_context: Any
    ssl_ocsp_expected_cert: str | None
    cache: CacheInterface | None
    cache_config: CacheConfig | None
    oss_cluster_maint_notifications_handler: OSSMaintNotificationsHandler | None


class AsyncOptions(ConnectionOptions, total=False):
    """What `amemdb.asyncio.Client` takes."""

    retry: redis.asyncio.retry.Retry
    auto_close_connection_pool: bool | None
