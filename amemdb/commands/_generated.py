"""Parse-and-call functions, one a command. Written by `python -m amemdb.commands.generate`: do not edit."""
# ruff: noqa

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from amemdb.commands import client
from amemdb.commands import connection
from amemdb.commands import conversation
from amemdb.commands import counters
from amemdb.commands import episodic
from amemdb.commands import expiry
from amemdb.commands import introspection
from amemdb.commands import keys
from amemdb.commands import memory
from amemdb.commands import persistence
from amemdb.commands import search
from amemdb.commands import semantic
from amemdb.commands import server
from amemdb.commands import strings
from amemdb.commands import summary
from amemdb.commands import transactions
from amemdb.commands import working
from amemdb.commands.context import Context
from amemdb.commands.parsing import (
    choice,
    cursor,
    integer,
    json_object,
    key_expiry,
    missing_option,
    missing_value,
    moment,
    name,
    pxat,
    real,
    repeated_option,
    role,
    sized,
    ttl,
    unknown_option,
    vector_tokens,
)
from amemdb.errors import wrong_arity


def run_multi(ctx: Context, argv: list[bytes]) -> Any:
    return transactions.multi(ctx)


def run_exec(ctx: Context, argv: list[bytes]) -> Any:
    return transactions.exec_(ctx)


def run_discard(ctx: Context, argv: list[bytes]) -> Any:
    return transactions.discard(ctx)


def run_watch(ctx: Context, argv: list[bytes]) -> Any:
    keys_ = argv[1:]
    return transactions.watch(ctx, keys_)


def run_unwatch(ctx: Context, argv: list[bytes]) -> Any:
    return transactions.unwatch(ctx)


def run_ping(ctx: Context, argv: list[bytes]) -> Any:
    messages_ = argv[1:]
    return connection.ping(ctx, messages_)


def run_echo(ctx: Context, argv: list[bytes]) -> Any:
    message_ = argv[1]
    return connection.echo(ctx, message_)


def run_hello(ctx: Context, argv: list[bytes]) -> Any:
    options_ = argv[1:]
    return connection.hello(ctx, options_)


def run_auth(ctx: Context, argv: list[bytes]) -> Any:
    credentials_ = argv[1:]
    return connection.auth(ctx, credentials_)


def run_select(ctx: Context, argv: list[bytes]) -> Any:
    index_ = integer(argv[1], 'index', -9223372036854775808, 9223372036854775807)
    return connection.select(ctx, index_)


def run_reset(ctx: Context, argv: list[bytes]) -> Any:
    return connection.reset(ctx)


def run_quit(ctx: Context, argv: list[bytes]) -> Any:
    ignored_ = argv[1:]
    return connection.quit_(ctx, ignored_)


def run_client_id(ctx: Context, argv: list[bytes]) -> Any:
    return client.client_id(ctx)


def run_client_setname(ctx: Context, argv: list[bytes]) -> Any:
    name_ = argv[2]
    return client.client_setname(ctx, name_)


def run_client_getname(ctx: Context, argv: list[bytes]) -> Any:
    return client.client_getname(ctx)


def run_client_setinfo(ctx: Context, argv: list[bytes]) -> Any:
    attribute_ = argv[2]
    value_ = argv[3]
    return client.client_setinfo(ctx, attribute_, value_)


def run_client_info(ctx: Context, argv: list[bytes]) -> Any:
    return client.client_info(ctx)


def run_client_list(ctx: Context, argv: list[bytes]) -> Any:
    filters_ = argv[2:]
    return client.client_list(ctx, filters_)


def run_client_kill(ctx: Context, argv: list[bytes]) -> Any:
    filters_ = argv[2:]
    return client.client_kill(ctx, filters_)


def run_client_reply(ctx: Context, argv: list[bytes]) -> Any:
    mode_ = choice(argv[2], 'mode', (b'on', b'off', b'skip'))
    return client.client_reply(ctx, mode_)


def run_client_no_evict(ctx: Context, argv: list[bytes]) -> Any:
    mode_ = choice(argv[2], 'mode', (b'on', b'off'))
    return client.client_no_evict(ctx, mode_)


def run_client_no_touch(ctx: Context, argv: list[bytes]) -> Any:
    mode_ = choice(argv[2], 'mode', (b'on', b'off'))
    return client.client_no_touch(ctx, mode_)


def run_client_help(ctx: Context, argv: list[bytes]) -> Any:
    return client.client_help(ctx)


def run_amem_conv_create(ctx: Context, argv: list[bytes]) -> Any:
    session_ = argv[1]
    if not 0 < len(session_) <= 1024:
        name(session_, 'session')
    at = 2
    window_ = None
    expire_at_ms_ = None
    nx_ = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'WINDOW':
            if window_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            window_ = integer(argv[at + 1], 'window', 1, 1000000)
            at += 2
        elif word == b'TTL':
            if expire_at_ms_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            expire_at_ms_ = ttl(argv[at + 1], ctx.now_ms)
            at += 2
        elif word == b'PXAT':
            if expire_at_ms_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            expire_at_ms_ = pxat(argv[at + 1], ctx.now_ms)
            at += 2
        elif word == b'NX':
            if nx_:
                repeated_option(argv[at])
            nx_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected WINDOW, TTL, PXAT or NX')
    return conversation.conv_create(ctx, session_, window_, expire_at_ms_, nx_)


def run_amem_conv_append(ctx: Context, argv: list[bytes]) -> Any:
    session_ = argv[1]
    if not 0 < len(session_) <= 1024:
        name(session_, 'session')
    role_ = role(argv[2])
    content_ = argv[3]
    at = 4
    id_ = None
    at_ms_ = None
    meta_ = None
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'ID':
            if id_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            id_ = sized(argv[at + 1], 'id', 1, 1024)
            at += 2
        elif word == b'AT':
            if at_ms_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            at_ms_ = moment(argv[at + 1], 'at_ms', ctx.now_ms)
            at += 2
        elif word == b'META':
            if meta_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            meta_ = json_object(argv[at + 1], 'meta')
            at += 2
        else:
            unknown_option(argv[at], ', expected ID, AT or META; quote texts with blanks')
    return conversation.conv_append(ctx, session_, role_, content_, id_, at_ms_, meta_)


def run_amem_conv_get(ctx: Context, argv: list[bytes]) -> Any:
    session_ = argv[1]
    if not 0 < len(session_) <= 1024:
        name(session_, 'session')
    at = 2
    with_meta_ = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'WITHMETA':
            if with_meta_:
                repeated_option(argv[at])
            with_meta_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected WITHMETA')
    return conversation.conv_get(ctx, session_, with_meta_)


def run_amem_conv_window(ctx: Context, argv: list[bytes]) -> Any:
    session_ = argv[1]
    if not 0 < len(session_) <= 1024:
        name(session_, 'session')
    n_ = integer(argv[2], 'n', 0, 9223372036854775807)
    at = 3
    budget_tokens_ = None
    with_meta_ = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'TOKENS':
            if budget_tokens_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            budget_tokens_ = integer(argv[at + 1], 'budget_tokens', 0, 9223372036854775807)
            at += 2
        elif word == b'WITHMETA':
            if with_meta_:
                repeated_option(argv[at])
            with_meta_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected TOKENS or WITHMETA')
    return conversation.conv_window(ctx, session_, n_, budget_tokens_, with_meta_)


def run_amem_conv_clear(ctx: Context, argv: list[bytes]) -> Any:
    session_ = argv[1]
    if not 0 < len(session_) <= 1024:
        name(session_, 'session')
    return conversation.conv_clear(ctx, session_)


def run_amem_conv_drop(ctx: Context, argv: list[bytes]) -> Any:
    session_ = argv[1]
    if not 0 < len(session_) <= 1024:
        name(session_, 'session')
    return conversation.conv_drop(ctx, session_)


def run_amem_conv_expire(ctx: Context, argv: list[bytes]) -> Any:
    session_ = argv[1]
    if not 0 < len(session_) <= 1024:
        name(session_, 'session')
    at = 2
    expire_at_ms_ = None
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'TTL':
            if expire_at_ms_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            expire_at_ms_ = ttl(argv[at + 1], ctx.now_ms)
            at += 2
        elif word == b'PXAT':
            if expire_at_ms_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            expire_at_ms_ = pxat(argv[at + 1], ctx.now_ms)
            at += 2
        elif word == b'PERSIST':
            if expire_at_ms_ is not None:
                repeated_option(argv[at])
            expire_at_ms_ = 0
            at += 1
        else:
            unknown_option(argv[at], ', expected TTL, PXAT or PERSIST')
    if expire_at_ms_ is None:
        missing_option('TTL, PXAT or PERSIST')
    return conversation.conv_expire(ctx, session_, expire_at_ms_)


def run_amem_conv_info(ctx: Context, argv: list[bytes]) -> Any:
    session_ = argv[1]
    if not 0 < len(session_) <= 1024:
        name(session_, 'session')
    return conversation.conv_info(ctx, session_)


def run_amem_conv_scan(ctx: Context, argv: list[bytes]) -> Any:
    cursor_ = cursor(argv[1])
    at = 2
    pattern_ = None
    count_ = None
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'MATCH':
            if pattern_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            pattern_ = argv[at + 1]
            at += 2
        elif word == b'COUNT':
            if count_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            count_ = integer(argv[at + 1], 'count', 1, 9223372036854775807)
            at += 2
        else:
            unknown_option(argv[at], ', expected MATCH or COUNT')
    return conversation.conv_scan(ctx, cursor_, pattern_, count_)


def run_del(ctx: Context, argv: list[bytes]) -> Any:
    keys_ = argv[1:]
    return keys.del_(ctx, keys_)


def run_unlink(ctx: Context, argv: list[bytes]) -> Any:
    keys_ = argv[1:]
    return keys.unlink(ctx, keys_)


def run_exists(ctx: Context, argv: list[bytes]) -> Any:
    keys_ = argv[1:]
    return keys.exists(ctx, keys_)


def run_touch(ctx: Context, argv: list[bytes]) -> Any:
    keys_ = argv[1:]
    return keys.touch(ctx, keys_)


def run_type(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    return keys.type_(ctx, key_)


def run_dbsize(ctx: Context, argv: list[bytes]) -> Any:
    return keys.dbsize(ctx)


def run_keys(ctx: Context, argv: list[bytes]) -> Any:
    pattern_ = argv[1]
    return keys.keys_(ctx, pattern_)


def run_scan(ctx: Context, argv: list[bytes]) -> Any:
    cursor_ = cursor(argv[1])
    at = 2
    pattern_ = None
    count_ = None
    type_ = None
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'MATCH':
            if pattern_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            pattern_ = argv[at + 1]
            at += 2
        elif word == b'COUNT':
            if count_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            count_ = integer(argv[at + 1], 'count', 1, 9223372036854775807)
            at += 2
        elif word == b'TYPE':
            if type_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            type_ = argv[at + 1]
            at += 2
        else:
            unknown_option(argv[at], ', expected MATCH, COUNT or TYPE')
    return keys.scan(ctx, cursor_, pattern_, count_, type_)


def run_randomkey(ctx: Context, argv: list[bytes]) -> Any:
    return keys.randomkey(ctx)


def run_rename(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    new_key_ = argv[2]
    return keys.rename(ctx, key_, new_key_)


def run_renamenx(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    new_key_ = argv[2]
    return keys.renamenx(ctx, key_, new_key_)


def run_copy(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    destination_ = argv[2]
    at = 3
    db_ = None
    replace_ = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'DB':
            if db_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            db_ = integer(argv[at + 1], 'db', -9223372036854775808, 9223372036854775807)
            at += 2
        elif word == b'REPLACE':
            if replace_:
                repeated_option(argv[at])
            replace_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected DB or REPLACE')
    return keys.copy(ctx, key_, destination_, db_, replace_)


def run_flushdb(ctx: Context, argv: list[bytes]) -> Any:
    at = 1
    in_background_ = False
    at_once_ = False
    group_mode = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'ASYNC':
            if group_mode:
                repeated_option(argv[at])
            group_mode = True
            in_background_ = True
            at += 1
        elif word == b'SYNC':
            if group_mode:
                repeated_option(argv[at])
            group_mode = True
            at_once_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected ASYNC or SYNC')
    return keys.flushdb(ctx, in_background_, at_once_)


def run_flushall(ctx: Context, argv: list[bytes]) -> Any:
    at = 1
    in_background_ = False
    at_once_ = False
    group_mode = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'ASYNC':
            if group_mode:
                repeated_option(argv[at])
            group_mode = True
            in_background_ = True
            at += 1
        elif word == b'SYNC':
            if group_mode:
                repeated_option(argv[at])
            group_mode = True
            at_once_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected ASYNC or SYNC')
    return keys.flushall(ctx, in_background_, at_once_)


def run_object_encoding(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[2]
    return keys.object_encoding(ctx, key_)


def run_object_refcount(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[2]
    return keys.object_refcount(ctx, key_)


def run_object_idletime(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[2]
    return keys.object_idletime(ctx, key_)


def run_object_freq(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[2]
    return keys.object_freq(ctx, key_)


def run_object_help(ctx: Context, argv: list[bytes]) -> Any:
    return keys.object_help(ctx)


def run_set(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    value_ = argv[2]
    at = 3
    nx_ = False
    xx_ = False
    get_ = False
    expire_at_ms_ = None
    keep_expiry_ = False
    group_condition = False
    group_expiry = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'NX':
            if group_condition:
                repeated_option(argv[at])
            group_condition = True
            nx_ = True
            at += 1
        elif word == b'XX':
            if group_condition:
                repeated_option(argv[at])
            group_condition = True
            xx_ = True
            at += 1
        elif word == b'GET':
            if get_:
                repeated_option(argv[at])
            get_ = True
            at += 1
        elif word == b'EX':
            if group_expiry:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            group_expiry = True
            expire_at_ms_ = key_expiry(argv[at + 1], ctx.now_ms, 1000, 1, ctx.now_ms, 'set')
            at += 2
        elif word == b'PX':
            if group_expiry:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            group_expiry = True
            expire_at_ms_ = key_expiry(argv[at + 1], ctx.now_ms, 1, 1, ctx.now_ms, 'set')
            at += 2
        elif word == b'EXAT':
            if group_expiry:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            group_expiry = True
            expire_at_ms_ = key_expiry(argv[at + 1], 0, 1000, 1, ctx.now_ms, 'set')
            at += 2
        elif word == b'PXAT':
            if group_expiry:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            group_expiry = True
            expire_at_ms_ = key_expiry(argv[at + 1], 0, 1, 1, ctx.now_ms, 'set')
            at += 2
        elif word == b'KEEPTTL':
            if group_expiry:
                repeated_option(argv[at])
            group_expiry = True
            keep_expiry_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected NX, XX, GET, EX, PX, EXAT, PXAT or KEEPTTL; quote texts with blanks')
    return strings.set_(ctx, key_, value_, nx_, xx_, get_, expire_at_ms_, keep_expiry_)


def run_get(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    return strings.get(ctx, key_)


def run_getdel(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    return strings.getdel(ctx, key_)


def run_getex(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    at = 2
    expire_at_ms_ = None
    persist_ = False
    group_expiry = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'EX':
            if group_expiry:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            group_expiry = True
            expire_at_ms_ = key_expiry(argv[at + 1], ctx.now_ms, 1000, 1, ctx.now_ms, 'getex')
            at += 2
        elif word == b'PX':
            if group_expiry:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            group_expiry = True
            expire_at_ms_ = key_expiry(argv[at + 1], ctx.now_ms, 1, 1, ctx.now_ms, 'getex')
            at += 2
        elif word == b'EXAT':
            if group_expiry:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            group_expiry = True
            expire_at_ms_ = key_expiry(argv[at + 1], 0, 1000, 1, ctx.now_ms, 'getex')
            at += 2
        elif word == b'PXAT':
            if group_expiry:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            group_expiry = True
            expire_at_ms_ = key_expiry(argv[at + 1], 0, 1, 1, ctx.now_ms, 'getex')
            at += 2
        elif word == b'PERSIST':
            if group_expiry:
                repeated_option(argv[at])
            group_expiry = True
            persist_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected EX, PX, EXAT, PXAT or PERSIST')
    return strings.getex(ctx, key_, expire_at_ms_, persist_)


def run_getset(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    value_ = argv[2]
    return strings.getset(ctx, key_, value_)


def run_setnx(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    value_ = argv[2]
    return strings.setnx(ctx, key_, value_)


def run_setex(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    expire_at_ms_ = key_expiry(argv[2], ctx.now_ms, 1000, 1, ctx.now_ms, 'setex')
    value_ = argv[3]
    return strings.setex(ctx, key_, expire_at_ms_, value_)


def run_psetex(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    expire_at_ms_ = key_expiry(argv[2], ctx.now_ms, 1, 1, ctx.now_ms, 'psetex')
    value_ = argv[3]
    return strings.psetex(ctx, key_, expire_at_ms_, value_)


def run_mget(ctx: Context, argv: list[bytes]) -> Any:
    keys_ = argv[1:]
    return strings.mget(ctx, keys_)


def run_mset(ctx: Context, argv: list[bytes]) -> Any:
    pairs_ = argv[1:]
    if len(pairs_) % 2:
        raise wrong_arity('MSET')
    return strings.mset(ctx, pairs_)


def run_msetnx(ctx: Context, argv: list[bytes]) -> Any:
    pairs_ = argv[1:]
    if len(pairs_) % 2:
        raise wrong_arity('MSETNX')
    return strings.msetnx(ctx, pairs_)


def run_strlen(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    return strings.strlen(ctx, key_)


def run_append(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    value_ = argv[2]
    return strings.append(ctx, key_, value_)


def run_setrange(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    offset_ = integer(argv[2], 'offset', -9223372036854775808, 9223372036854775807)
    value_ = argv[3]
    return strings.setrange(ctx, key_, offset_, value_)


def run_getrange(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    start_ = integer(argv[2], 'start', -9223372036854775808, 9223372036854775807)
    end_ = integer(argv[3], 'end', -9223372036854775808, 9223372036854775807)
    return strings.getrange(ctx, key_, start_, end_)


def run_substr(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    start_ = integer(argv[2], 'start', -9223372036854775808, 9223372036854775807)
    end_ = integer(argv[3], 'end', -9223372036854775808, 9223372036854775807)
    return strings.substr(ctx, key_, start_, end_)


def run_incr(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    return counters.incr(ctx, key_)


def run_decr(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    return counters.decr(ctx, key_)


def run_incrby(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    increment_ = integer(argv[2], 'increment', -9223372036854775808, 9223372036854775807)
    return counters.incrby(ctx, key_, increment_)


def run_decrby(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    decrement_ = integer(argv[2], 'decrement', -9223372036854775808, 9223372036854775807)
    return counters.decrby(ctx, key_, decrement_)


def run_incrbyfloat(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    increment_ = argv[2]
    return counters.incrbyfloat(ctx, key_, increment_)


def run_amem_epis_log(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    type_ = argv[2]
    if not 0 < len(type_) <= 1024:
        name(type_, 'type')
    content_ = argv[3]
    at = 4
    metadata_ = None
    at_ms_ = None
    id_ = None
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'METADATA':
            if metadata_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            metadata_ = argv[at + 1]
            at += 2
        elif word == b'AT':
            if at_ms_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            at_ms_ = moment(argv[at + 1], 'at_ms', ctx.now_ms)
            at += 2
        elif word == b'ID':
            if id_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            id_ = sized(argv[at + 1], 'id', 1, 1024)
            at += 2
        else:
            unknown_option(argv[at], ', expected METADATA, AT or ID; quote texts with blanks')
    return episodic.epis_log(ctx, agent_, type_, content_, metadata_, at_ms_, id_)


def run_amem_epis_query(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    at = 2
    type_ = None
    from_ms_ = None
    to_ms_ = None
    limit_ = None
    newest_first_ = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'TYPE':
            if type_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            type_ = name(argv[at + 1], 'type')
            at += 2
        elif word == b'FROM':
            if from_ms_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            from_ms_ = integer(argv[at + 1], 'from_ms', -9223372036854775808, 9223372036854775807)
            at += 2
        elif word == b'TO':
            if to_ms_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            to_ms_ = integer(argv[at + 1], 'to_ms', -9223372036854775808, 9223372036854775807)
            at += 2
        elif word == b'LIMIT':
            if limit_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            limit_ = integer(argv[at + 1], 'limit', 0, 9223372036854775807)
            at += 2
        elif word == b'REV':
            if newest_first_:
                repeated_option(argv[at])
            newest_first_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected TYPE, FROM, TO, LIMIT or REV')
    return episodic.epis_query(ctx, agent_, type_, from_ms_, to_ms_, limit_, newest_first_)


def run_amem_epis_stats(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    at = 2
    with_meta_ = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'WITHMETA':
            if with_meta_:
                repeated_option(argv[at])
            with_meta_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected WITHMETA')
    return episodic.epis_stats(ctx, agent_, with_meta_)


def run_amem_epis_clear(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    return episodic.epis_clear(ctx, agent_)


def run_amem_epis_retain(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    at = 2
    maxlen_ = None
    maxage_s_ = None
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'MAXLEN':
            if maxlen_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            maxlen_ = integer(argv[at + 1], 'maxlen', 1, 9223372036854775807)
            at += 2
        elif word == b'MAXAGE':
            if maxage_s_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            maxage_s_ = integer(argv[at + 1], 'maxage_s', 1, 3155760000)
            at += 2
        else:
            unknown_option(argv[at], ', expected MAXLEN or MAXAGE')
    return episodic.epis_retain(ctx, agent_, maxlen_, maxage_s_)


def run_amem_epis_page(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    cursor_ = argv[2]
    at = 3
    count_ = None
    with_meta_ = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'COUNT':
            if count_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            count_ = integer(argv[at + 1], 'count', 1, 10000)
            at += 2
        elif word == b'WITHMETA':
            if with_meta_:
                repeated_option(argv[at])
            with_meta_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected COUNT or WITHMETA')
    return episodic.epis_page(ctx, agent_, cursor_, count_, with_meta_)


def run_amem_epis_scan(ctx: Context, argv: list[bytes]) -> Any:
    cursor_ = cursor(argv[1])
    at = 2
    pattern_ = None
    count_ = None
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'MATCH':
            if pattern_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            pattern_ = argv[at + 1]
            at += 2
        elif word == b'COUNT':
            if count_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            count_ = integer(argv[at + 1], 'count', 1, 9223372036854775807)
            at += 2
        else:
            unknown_option(argv[at], ', expected MATCH or COUNT')
    return episodic.epis_scan(ctx, cursor_, pattern_, count_)


def run_expire(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    expire_at_ms_ = key_expiry(argv[2], ctx.now_ms, 1000, -9223372036854775, ctx.now_ms, 'expire')
    at = 3
    nx_ = False
    xx_ = False
    gt_ = False
    lt_ = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'NX':
            if nx_:
                repeated_option(argv[at])
            nx_ = True
            at += 1
        elif word == b'XX':
            if xx_:
                repeated_option(argv[at])
            xx_ = True
            at += 1
        elif word == b'GT':
            if gt_:
                repeated_option(argv[at])
            gt_ = True
            at += 1
        elif word == b'LT':
            if lt_:
                repeated_option(argv[at])
            lt_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected NX, XX, GT or LT')
    return expiry.expire(ctx, key_, expire_at_ms_, nx_, xx_, gt_, lt_)


def run_pexpire(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    expire_at_ms_ = key_expiry(argv[2], ctx.now_ms, 1, -9223372036854775808, ctx.now_ms, 'pexpire')
    at = 3
    nx_ = False
    xx_ = False
    gt_ = False
    lt_ = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'NX':
            if nx_:
                repeated_option(argv[at])
            nx_ = True
            at += 1
        elif word == b'XX':
            if xx_:
                repeated_option(argv[at])
            xx_ = True
            at += 1
        elif word == b'GT':
            if gt_:
                repeated_option(argv[at])
            gt_ = True
            at += 1
        elif word == b'LT':
            if lt_:
                repeated_option(argv[at])
            lt_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected NX, XX, GT or LT')
    return expiry.pexpire(ctx, key_, expire_at_ms_, nx_, xx_, gt_, lt_)


def run_expireat(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    expire_at_ms_ = key_expiry(argv[2], 0, 1000, -9223372036854775, ctx.now_ms, 'expireat')
    at = 3
    nx_ = False
    xx_ = False
    gt_ = False
    lt_ = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'NX':
            if nx_:
                repeated_option(argv[at])
            nx_ = True
            at += 1
        elif word == b'XX':
            if xx_:
                repeated_option(argv[at])
            xx_ = True
            at += 1
        elif word == b'GT':
            if gt_:
                repeated_option(argv[at])
            gt_ = True
            at += 1
        elif word == b'LT':
            if lt_:
                repeated_option(argv[at])
            lt_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected NX, XX, GT or LT')
    return expiry.expireat(ctx, key_, expire_at_ms_, nx_, xx_, gt_, lt_)


def run_pexpireat(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    expire_at_ms_ = key_expiry(argv[2], 0, 1, -9223372036854775808, ctx.now_ms, 'pexpireat')
    at = 3
    nx_ = False
    xx_ = False
    gt_ = False
    lt_ = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'NX':
            if nx_:
                repeated_option(argv[at])
            nx_ = True
            at += 1
        elif word == b'XX':
            if xx_:
                repeated_option(argv[at])
            xx_ = True
            at += 1
        elif word == b'GT':
            if gt_:
                repeated_option(argv[at])
            gt_ = True
            at += 1
        elif word == b'LT':
            if lt_:
                repeated_option(argv[at])
            lt_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected NX, XX, GT or LT')
    return expiry.pexpireat(ctx, key_, expire_at_ms_, nx_, xx_, gt_, lt_)


def run_persist(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    return expiry.persist(ctx, key_)


def run_ttl(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    return expiry.ttl(ctx, key_)


def run_pttl(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    return expiry.pttl(ctx, key_)


def run_expiretime(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    return expiry.expiretime(ctx, key_)


def run_pexpiretime(ctx: Context, argv: list[bytes]) -> Any:
    key_ = argv[1]
    return expiry.pexpiretime(ctx, key_)


def run_command(ctx: Context, argv: list[bytes]) -> Any:
    return introspection.command_all(ctx)


def run_command_count(ctx: Context, argv: list[bytes]) -> Any:
    return introspection.command_count(ctx)


def run_command_info(ctx: Context, argv: list[bytes]) -> Any:
    names_ = argv[2:]
    return introspection.command_info(ctx, names_)


def run_command_docs(ctx: Context, argv: list[bytes]) -> Any:
    names_ = argv[2:]
    return introspection.command_docs(ctx, names_)


def run_command_list(ctx: Context, argv: list[bytes]) -> Any:
    filters_ = argv[2:]
    return introspection.command_list(ctx, filters_)


def run_command_getkeys(ctx: Context, argv: list[bytes]) -> Any:
    tokens_ = argv[2:]
    return introspection.command_getkeys(ctx, tokens_)


def run_command_help(ctx: Context, argv: list[bytes]) -> Any:
    return introspection.command_help(ctx)


def run_memory_usage(ctx: Context, argv: list[bytes]) -> Any:
    name_ = argv[2]
    at = 3
    samples_ = None
    session_ = False
    namespace_ = False
    events_ = False
    summary_ = False
    group_kind = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'SAMPLES':
            if samples_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            samples_ = integer(argv[at + 1], 'samples', 0, 9223372036854775807)
            at += 2
        elif word == b'SESSION':
            if group_kind:
                repeated_option(argv[at])
            group_kind = True
            session_ = True
            at += 1
        elif word == b'NAMESPACE':
            if group_kind:
                repeated_option(argv[at])
            group_kind = True
            namespace_ = True
            at += 1
        elif word == b'EVENTS':
            if group_kind:
                repeated_option(argv[at])
            group_kind = True
            events_ = True
            at += 1
        elif word == b'SUMMARY':
            if group_kind:
                repeated_option(argv[at])
            group_kind = True
            summary_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected SAMPLES, SESSION, NAMESPACE, EVENTS or SUMMARY')
    return memory.memory_usage(ctx, name_, samples_, session_, namespace_, events_, summary_)


def run_memory_stats(ctx: Context, argv: list[bytes]) -> Any:
    return memory.memory_stats(ctx)


def run_memory_help(ctx: Context, argv: list[bytes]) -> Any:
    return memory.memory_help(ctx)


def run_bgrewriteaof(ctx: Context, argv: list[bytes]) -> Any:
    return persistence.bgrewriteaof(ctx)


def run_bgsave(ctx: Context, argv: list[bytes]) -> Any:
    at = 1
    schedule_ = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'SCHEDULE':
            if schedule_:
                repeated_option(argv[at])
            schedule_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected SCHEDULE')
    return persistence.bgsave(ctx, schedule_)


def run_save(ctx: Context, argv: list[bytes]) -> Any:
    return persistence.save(ctx)


def run_lastsave(ctx: Context, argv: list[bytes]) -> Any:
    return persistence.lastsave(ctx)


def run_amem_sem_create(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    dim_ = integer(argv[2], 'dim', 1, 65536)
    at = 3
    metric_ = None
    m_ = None
    ef_construction_ = None
    ef_search_ = None
    quant_ = None
    maxfacts_ = None
    model_ = None
    lang_ = None
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'METRIC':
            if metric_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            metric_ = choice(argv[at + 1], 'metric', (b'cosine', b'ip', b'l2'))
            at += 2
        elif word == b'M':
            if m_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            m_ = integer(argv[at + 1], 'm', 4, 128)
            at += 2
        elif word == b'EF_CONSTRUCTION':
            if ef_construction_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            ef_construction_ = integer(argv[at + 1], 'ef_construction', 1, 10000)
            at += 2
        elif word == b'EF_SEARCH':
            if ef_search_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            ef_search_ = integer(argv[at + 1], 'ef_search', 1, 10000)
            at += 2
        elif word == b'QUANT':
            if quant_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            quant_ = choice(argv[at + 1], 'quant', (b'f32', b'f16'))
            at += 2
        elif word == b'MAXFACTS':
            if maxfacts_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            maxfacts_ = integer(argv[at + 1], 'maxfacts', 1, 1000000000)
            at += 2
        elif word == b'MODEL':
            if model_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            model_ = sized(argv[at + 1], 'model', 1, 1024)
            at += 2
        elif word == b'LANG':
            if lang_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            lang_ = sized(argv[at + 1], 'lang', 1, 32)
            at += 2
        else:
            unknown_option(argv[at], ', expected METRIC, M, EF_CONSTRUCTION, EF_SEARCH, QUANT, MAXFACTS, MODEL or LANG')
    return semantic.sem_create(ctx, agent_, dim_, metric_, m_, ef_construction_, ef_search_, quant_, maxfacts_, model_, lang_)


def run_amem_sem_store(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    key_ = argv[2]
    if not 0 < len(key_) <= 1024:
        name(key_, 'key')
    content_ = argv[3]
    tokens_, at = vector_tokens(argv, 4, frozenset((b'EMBED', b'META', b'MODEL', b'PXAT', b'SOURCE', b'TRUST', b'TTL', )))
    expire_at_ms_ = None
    source_ = None
    trust_ = None
    meta_ = None
    model_ = None
    embed_ = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'TTL':
            if expire_at_ms_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            expire_at_ms_ = ttl(argv[at + 1], ctx.now_ms)
            at += 2
        elif word == b'PXAT':
            if expire_at_ms_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            expire_at_ms_ = pxat(argv[at + 1], ctx.now_ms)
            at += 2
        elif word == b'SOURCE':
            if source_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            source_ = sized(argv[at + 1], 'source', 0, 65536)
            at += 2
        elif word == b'TRUST':
            if trust_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            trust_ = choice(argv[at + 1], 'trust', (b'trusted', b'untrusted'))
            at += 2
        elif word == b'META':
            if meta_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            meta_ = json_object(argv[at + 1], 'meta')
            at += 2
        elif word == b'MODEL':
            if model_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            model_ = sized(argv[at + 1], 'model', 1, 1024)
            at += 2
        elif word == b'EMBED':
            if embed_:
                repeated_option(argv[at])
            embed_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected TTL, PXAT, SOURCE, TRUST, META, MODEL or EMBED')
    return semantic.sem_store(ctx, agent_, key_, content_, tokens_, expire_at_ms_, source_, trust_, meta_, model_, embed_)


def run_amem_sem_recall(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    k_ = integer(argv[2], 'k', 0, 100000)
    tokens_, at = vector_tokens(argv, 3, frozenset((b'EF', b'EXPLAIN', b'FILTER', b'HYBRID', b'MODEL', b'TEXT', b'THRESHOLD', b'WITHMETA', )))
    threshold_ = None
    hybrid_ = None
    filter_ = None
    ef_ = None
    with_meta_ = False
    explain_ = False
    model_ = None
    text_ = None
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'THRESHOLD':
            if threshold_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            threshold_ = real(argv[at + 1], 'threshold')
            at += 2
        elif word == b'HYBRID':
            if hybrid_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            hybrid_ = sized(argv[at + 1], 'hybrid', 0, 8192)
            at += 2
        elif word == b'FILTER':
            if filter_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            filter_ = sized(argv[at + 1], 'filter', 1, 4096)
            at += 2
        elif word == b'EF':
            if ef_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            ef_ = integer(argv[at + 1], 'ef', 1, 10000)
            at += 2
        elif word == b'WITHMETA':
            if with_meta_:
                repeated_option(argv[at])
            with_meta_ = True
            at += 1
        elif word == b'EXPLAIN':
            if explain_:
                repeated_option(argv[at])
            explain_ = True
            at += 1
        elif word == b'MODEL':
            if model_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            model_ = sized(argv[at + 1], 'model', 1, 1024)
            at += 2
        elif word == b'TEXT':
            if text_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            text_ = argv[at + 1]
            at += 2
        else:
            unknown_option(argv[at], ', expected THRESHOLD, HYBRID, FILTER, EF, WITHMETA, EXPLAIN, MODEL or TEXT')
    return semantic.sem_recall(ctx, agent_, k_, tokens_, threshold_, hybrid_, filter_, ef_, with_meta_, explain_, model_, text_)


def run_amem_sem_forget(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    key_ = argv[2]
    if not 0 < len(key_) <= 1024:
        name(key_, 'key')
    return semantic.sem_forget(ctx, agent_, key_)


def run_amem_sem_list(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    return semantic.sem_list(ctx, agent_)


def run_amem_sem_get(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    key_ = argv[2]
    if not 0 < len(key_) <= 1024:
        name(key_, 'key')
    at = 3
    with_vector_ = False
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'WITHVECTOR':
            if with_vector_:
                repeated_option(argv[at])
            with_vector_ = True
            at += 1
        else:
            unknown_option(argv[at], ', expected WITHVECTOR')
    return semantic.sem_get(ctx, agent_, key_, with_vector_)


def run_amem_sem_info(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    return semantic.sem_info(ctx, agent_)


def run_amem_sem_drop(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    return semantic.sem_drop(ctx, agent_)


def run_amem_sem_scan(ctx: Context, argv: list[bytes]) -> Any:
    cursor_ = cursor(argv[1])
    at = 2
    pattern_ = None
    count_ = None
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'MATCH':
            if pattern_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            pattern_ = argv[at + 1]
            at += 2
        elif word == b'COUNT':
            if count_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            count_ = integer(argv[at + 1], 'count', 1, 9223372036854775807)
            at += 2
        else:
            unknown_option(argv[at], ', expected MATCH or COUNT')
    return semantic.sem_scan(ctx, cursor_, pattern_, count_)


def run_amem_search(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    k_ = integer(argv[2], 'k', 0, 100000)
    tokens_, at = vector_tokens(argv, 3, frozenset((b'SESSION', b'TEXT', )))
    text_ = None
    session_ = None
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'TEXT':
            if text_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            text_ = sized(argv[at + 1], 'text', 0, 8192)
            at += 2
        elif word == b'SESSION':
            if session_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            session_ = name(argv[at + 1], 'session')
            at += 2
        else:
            unknown_option(argv[at], ', expected TEXT or SESSION')
    return search.search_all(ctx, agent_, k_, tokens_, text_, session_)


def run_info(ctx: Context, argv: list[bytes]) -> Any:
    sections_ = argv[1:]
    return server.info(ctx, sections_)


def run_time(ctx: Context, argv: list[bytes]) -> Any:
    return server.time(ctx)


def run_config_get(ctx: Context, argv: list[bytes]) -> Any:
    patterns_ = argv[2:]
    return server.config_get(ctx, patterns_)


def run_config_set(ctx: Context, argv: list[bytes]) -> Any:
    changes_ = argv[2:]
    if len(changes_) % 2:
        raise wrong_arity('CONFIG|SET')
    return server.config_set(ctx, changes_)


def run_config_rewrite(ctx: Context, argv: list[bytes]) -> Any:
    return server.config_rewrite(ctx)


def run_config_resetstat(ctx: Context, argv: list[bytes]) -> Any:
    return server.config_resetstat(ctx)


def run_config_help(ctx: Context, argv: list[bytes]) -> Any:
    return server.config_help(ctx)


def run_slowlog_get(ctx: Context, argv: list[bytes]) -> Any:
    counts_ = argv[2:]
    return server.slowlog_get(ctx, counts_)


def run_slowlog_len(ctx: Context, argv: list[bytes]) -> Any:
    return server.slowlog_len(ctx)


def run_slowlog_reset(ctx: Context, argv: list[bytes]) -> Any:
    return server.slowlog_reset(ctx)


def run_slowlog_help(ctx: Context, argv: list[bytes]) -> Any:
    return server.slowlog_help(ctx)


def run_debug_digest(ctx: Context, argv: list[bytes]) -> Any:
    return server.debug_digest(ctx)


def run_debug_sleep(ctx: Context, argv: list[bytes]) -> Any:
    seconds_ = real(argv[2], 'seconds')
    return server.debug_sleep(ctx, seconds_)


def run_debug_help(ctx: Context, argv: list[bytes]) -> Any:
    return server.debug_help(ctx)


def run_shutdown(ctx: Context, argv: list[bytes]) -> Any:
    modes_ = argv[1:]
    return server.shutdown(ctx, modes_)


def run_amem_summary_set(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    text_ = argv[2]
    at = 3
    version_ = None
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'IFVERSION':
            if version_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            version_ = integer(argv[at + 1], 'version', 0, 9223372036854775807)
            at += 2
        else:
            unknown_option(argv[at], ', expected IFVERSION; quote texts with blanks')
    return summary.summary_set(ctx, agent_, text_, version_)


def run_amem_summary_append(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    line_ = argv[2]
    return summary.summary_append(ctx, agent_, line_)


def run_amem_summary_get(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    return summary.summary_get(ctx, agent_)


def run_amem_summary_drop(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    return summary.summary_drop(ctx, agent_)


def run_amem_summary_list(ctx: Context, argv: list[bytes]) -> Any:
    return summary.summary_list(ctx)


def run_amem_summary_history(ctx: Context, argv: list[bytes]) -> Any:
    agent_ = argv[1]
    if not 0 < len(agent_) <= 1024:
        name(agent_, 'agent')
    at = 2
    count_ = None
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'COUNT':
            if count_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            count_ = integer(argv[at + 1], 'count', 0, 9223372036854775807)
            at += 2
        else:
            unknown_option(argv[at], ', expected COUNT')
    return summary.summary_history(ctx, agent_, count_)


def run_amem_summary_scan(ctx: Context, argv: list[bytes]) -> Any:
    cursor_ = cursor(argv[1])
    at = 2
    pattern_ = None
    count_ = None
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'MATCH':
            if pattern_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            pattern_ = argv[at + 1]
            at += 2
        elif word == b'COUNT':
            if count_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            count_ = integer(argv[at + 1], 'count', 1, 9223372036854775807)
            at += 2
        else:
            unknown_option(argv[at], ', expected MATCH or COUNT')
    return summary.summary_scan(ctx, cursor_, pattern_, count_)


def run_amem_work_set(ctx: Context, argv: list[bytes]) -> Any:
    session_ = argv[1]
    if not 0 < len(session_) <= 1024:
        name(session_, 'session')
    key_ = argv[2]
    if not 0 < len(key_) <= 1024:
        name(key_, 'key')
    value_ = argv[3]
    at = 4
    expire_at_ms_ = None
    argc = len(argv)
    while at < argc:
        word = argv[at].upper()
        if word == b'TTL':
            if expire_at_ms_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            expire_at_ms_ = ttl(argv[at + 1], ctx.now_ms)
            at += 2
        elif word == b'PXAT':
            if expire_at_ms_ is not None:
                repeated_option(argv[at])
            if at + 1 == argc:
                missing_value(argv[at])
            expire_at_ms_ = pxat(argv[at + 1], ctx.now_ms)
            at += 2
        else:
            unknown_option(argv[at], ', expected TTL or PXAT; quote texts with blanks')
    return working.work_set(ctx, session_, key_, value_, expire_at_ms_)


def run_amem_work_get(ctx: Context, argv: list[bytes]) -> Any:
    session_ = argv[1]
    if not 0 < len(session_) <= 1024:
        name(session_, 'session')
    key_ = argv[2]
    if not 0 < len(key_) <= 1024:
        name(key_, 'key')
    return working.work_get(ctx, session_, key_)


def run_amem_work_del(ctx: Context, argv: list[bytes]) -> Any:
    session_ = argv[1]
    if not 0 < len(session_) <= 1024:
        name(session_, 'session')
    key_ = argv[2]
    if not 0 < len(key_) <= 1024:
        name(key_, 'key')
    return working.work_del(ctx, session_, key_)


def run_amem_work_clear(ctx: Context, argv: list[bytes]) -> Any:
    session_ = argv[1]
    if not 0 < len(session_) <= 1024:
        name(session_, 'session')
    return working.work_clear(ctx, session_)


def run_amem_work_list(ctx: Context, argv: list[bytes]) -> Any:
    session_ = argv[1]
    if not 0 < len(session_) <= 1024:
        name(session_, 'session')
    return working.work_list(ctx, session_)


def run_amem_work_getall(ctx: Context, argv: list[bytes]) -> Any:
    session_ = argv[1]
    if not 0 < len(session_) <= 1024:
        name(session_, 'session')
    return working.work_getall(ctx, session_)


def run_amem_work_ttl(ctx: Context, argv: list[bytes]) -> Any:
    session_ = argv[1]
    if not 0 < len(session_) <= 1024:
        name(session_, 'session')
    key_ = argv[2]
    if not 0 < len(key_) <= 1024:
        name(key_, 'key')
    return working.work_ttl(ctx, session_, key_)


RUN: dict[str, Callable[[Context, list[bytes]], Any]] = {
    'MULTI': run_multi,
    'EXEC': run_exec,
    'DISCARD': run_discard,
    'WATCH': run_watch,
    'UNWATCH': run_unwatch,
    'PING': run_ping,
    'ECHO': run_echo,
    'HELLO': run_hello,
    'AUTH': run_auth,
    'SELECT': run_select,
    'RESET': run_reset,
    'QUIT': run_quit,
    'CLIENT|ID': run_client_id,
    'CLIENT|SETNAME': run_client_setname,
    'CLIENT|GETNAME': run_client_getname,
    'CLIENT|SETINFO': run_client_setinfo,
    'CLIENT|INFO': run_client_info,
    'CLIENT|LIST': run_client_list,
    'CLIENT|KILL': run_client_kill,
    'CLIENT|REPLY': run_client_reply,
    'CLIENT|NO-EVICT': run_client_no_evict,
    'CLIENT|NO-TOUCH': run_client_no_touch,
    'CLIENT|HELP': run_client_help,
    'AMEM.CONV.CREATE': run_amem_conv_create,
    'AMEM.CONV.APPEND': run_amem_conv_append,
    'AMEM.CONV.GET': run_amem_conv_get,
    'AMEM.CONV.WINDOW': run_amem_conv_window,
    'AMEM.CONV.CLEAR': run_amem_conv_clear,
    'AMEM.CONV.DROP': run_amem_conv_drop,
    'AMEM.CONV.EXPIRE': run_amem_conv_expire,
    'AMEM.CONV.INFO': run_amem_conv_info,
    'AMEM.CONV.SCAN': run_amem_conv_scan,
    'DEL': run_del,
    'UNLINK': run_unlink,
    'EXISTS': run_exists,
    'TOUCH': run_touch,
    'TYPE': run_type,
    'DBSIZE': run_dbsize,
    'KEYS': run_keys,
    'SCAN': run_scan,
    'RANDOMKEY': run_randomkey,
    'RENAME': run_rename,
    'RENAMENX': run_renamenx,
    'COPY': run_copy,
    'FLUSHDB': run_flushdb,
    'FLUSHALL': run_flushall,
    'OBJECT|ENCODING': run_object_encoding,
    'OBJECT|REFCOUNT': run_object_refcount,
    'OBJECT|IDLETIME': run_object_idletime,
    'OBJECT|FREQ': run_object_freq,
    'OBJECT|HELP': run_object_help,
    'SET': run_set,
    'GET': run_get,
    'GETDEL': run_getdel,
    'GETEX': run_getex,
    'GETSET': run_getset,
    'SETNX': run_setnx,
    'SETEX': run_setex,
    'PSETEX': run_psetex,
    'MGET': run_mget,
    'MSET': run_mset,
    'MSETNX': run_msetnx,
    'STRLEN': run_strlen,
    'APPEND': run_append,
    'SETRANGE': run_setrange,
    'GETRANGE': run_getrange,
    'SUBSTR': run_substr,
    'INCR': run_incr,
    'DECR': run_decr,
    'INCRBY': run_incrby,
    'DECRBY': run_decrby,
    'INCRBYFLOAT': run_incrbyfloat,
    'AMEM.EPIS.LOG': run_amem_epis_log,
    'AMEM.EPIS.QUERY': run_amem_epis_query,
    'AMEM.EPIS.STATS': run_amem_epis_stats,
    'AMEM.EPIS.CLEAR': run_amem_epis_clear,
    'AMEM.EPIS.RETAIN': run_amem_epis_retain,
    'AMEM.EPIS.PAGE': run_amem_epis_page,
    'AMEM.EPIS.SCAN': run_amem_epis_scan,
    'EXPIRE': run_expire,
    'PEXPIRE': run_pexpire,
    'EXPIREAT': run_expireat,
    'PEXPIREAT': run_pexpireat,
    'PERSIST': run_persist,
    'TTL': run_ttl,
    'PTTL': run_pttl,
    'EXPIRETIME': run_expiretime,
    'PEXPIRETIME': run_pexpiretime,
    'COMMAND': run_command,
    'COMMAND|COUNT': run_command_count,
    'COMMAND|INFO': run_command_info,
    'COMMAND|DOCS': run_command_docs,
    'COMMAND|LIST': run_command_list,
    'COMMAND|GETKEYS': run_command_getkeys,
    'COMMAND|HELP': run_command_help,
    'MEMORY|USAGE': run_memory_usage,
    'MEMORY|STATS': run_memory_stats,
    'MEMORY|HELP': run_memory_help,
    'BGREWRITEAOF': run_bgrewriteaof,
    'BGSAVE': run_bgsave,
    'SAVE': run_save,
    'LASTSAVE': run_lastsave,
    'AMEM.SEM.CREATE': run_amem_sem_create,
    'AMEM.SEM.STORE': run_amem_sem_store,
    'AMEM.SEM.RECALL': run_amem_sem_recall,
    'AMEM.SEM.FORGET': run_amem_sem_forget,
    'AMEM.SEM.LIST': run_amem_sem_list,
    'AMEM.SEM.GET': run_amem_sem_get,
    'AMEM.SEM.INFO': run_amem_sem_info,
    'AMEM.SEM.DROP': run_amem_sem_drop,
    'AMEM.SEM.SCAN': run_amem_sem_scan,
    'AMEM.SEARCH': run_amem_search,
    'INFO': run_info,
    'TIME': run_time,
    'CONFIG|GET': run_config_get,
    'CONFIG|SET': run_config_set,
    'CONFIG|REWRITE': run_config_rewrite,
    'CONFIG|RESETSTAT': run_config_resetstat,
    'CONFIG|HELP': run_config_help,
    'SLOWLOG|GET': run_slowlog_get,
    'SLOWLOG|LEN': run_slowlog_len,
    'SLOWLOG|RESET': run_slowlog_reset,
    'SLOWLOG|HELP': run_slowlog_help,
    'DEBUG|DIGEST': run_debug_digest,
    'DEBUG|SLEEP': run_debug_sleep,
    'DEBUG|HELP': run_debug_help,
    'SHUTDOWN': run_shutdown,
    'AMEM.SUMMARY.SET': run_amem_summary_set,
    'AMEM.SUMMARY.APPEND': run_amem_summary_append,
    'AMEM.SUMMARY.GET': run_amem_summary_get,
    'AMEM.SUMMARY.DROP': run_amem_summary_drop,
    'AMEM.SUMMARY.LIST': run_amem_summary_list,
    'AMEM.SUMMARY.HISTORY': run_amem_summary_history,
    'AMEM.SUMMARY.SCAN': run_amem_summary_scan,
    'AMEM.WORK.SET': run_amem_work_set,
    'AMEM.WORK.GET': run_amem_work_get,
    'AMEM.WORK.DEL': run_amem_work_del,
    'AMEM.WORK.CLEAR': run_amem_work_clear,
    'AMEM.WORK.LIST': run_amem_work_list,
    'AMEM.WORK.GETALL': run_amem_work_getall,
    'AMEM.WORK.TTL': run_amem_work_ttl,
}
