"""The commands of the command line as processes, against a real server."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from amemdb import native
from tests.process import ServerProcess

FILL = """\
AMEM.CONV.CREATE session-42 WINDOW 50 TTL 86400
AMEM.CONV.APPEND session-42 user "INV-1932 \\x1b[31m 🙂 \\xff" META '{"n": 1}'
AMEM.WORK.SET session-42 ticket INV-1932 TTL 3600
AMEM.EPIS.LOG support action "Looked up INV-1932" ID e-1
AMEM.SEM.CREATE support 3
AMEM.SEM.STORE support vat "30 days" 0.1 0.2 -0
AMEM.SUMMARY.SET support "Short answers."
SET plain key
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("cli") / "data", "--enable-debug-command", "yes") as process:
        yield process


@pytest.fixture
def client(server: ServerProcess) -> Iterator[redis.Redis]:
    with redis.Redis(port=server.port) as connection:
        connection.flushall()
        connection.config_resetstat()
        yield connection


def amemdb(*words: str, url: str = "", stdin: str | bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
    data = stdin.encode() if isinstance(stdin, str) else stdin
    environment = {**os.environ, "COLUMNS": "100", **({"AMEMDB_URL": url} if url else {}), **environ}
    command = [sys.executable, "-m", "amemdb", *words]
    return subprocess.run(command, input=data, capture_output=True, timeout=60, check=False, env=environment)


def url_of(server: ServerProcess) -> str:
    return f"redis://127.0.0.1:{server.port}"


# -- cli ---------------------------------------------------------------------------------------------


def test_one_command(server, client):
    assert amemdb("cli", "SET", "k", "a b", url=url_of(server)).stdout == b"OK\n"
    assert amemdb("cli", "--url", url_of(server), "GET", "k").stdout == b"a b\n"
    assert amemdb("cli", "--pretty", "GET", "k", url=url_of(server)).stdout == b'"a b"\n'
    assert amemdb("cli", "INCRBY", "n", "-5", url=url_of(server)).stdout == b"-5\n"
    refused = amemdb("cli", "NOPE", url=url_of(server))
    assert (refused.returncode, refused.stdout[:20]) == (1, b"ERR unknown command ")


def test_an_option_behind_the_command_is_told_when_it_is_refused(server, client):
    url = url_of(server)
    done = amemdb("cli", "PING", "again", "--url", "redis://:secret@h", url=url)
    assert (done.returncode, done.stdout.startswith(b"ERR wrong number of arguments")) == (1, True)
    assert done.stderr.decode() == (
        "amemdb: --url was sent as an argument: options go before the command, as in 'amemdb cli --url … PING'\n"
    )
    assert b"--json was sent" in amemdb("cli", "GET", "k", "--json", url=url).stderr
    assert b"--url was sent" in amemdb("cli", "GET", "k", "--url=x", url="redis://127.0.0.1:1").stderr
    assert amemdb("cli", "GET", "k", "--like", url=url).stderr == b""
    assert amemdb("cli", "SET", "k", "--url", url=url).stderr == b""
    assert client.get("k") == b"--url"


def test_bytes_that_are_no_text_go_both_ways(server, client):
    word = os.fsdecode(b"\xff\xfe")
    amemdb("cli", "SET", word, word, url=url_of(server))
    assert client.get(b"\xff\xfe") == b"\xff\xfe"
    assert amemdb("cli", "--raw", "GET", word, url=url_of(server)).stdout == b"\xff\xfe\n"
    assert json.loads(amemdb("cli", "--json", "GET", word, url=url_of(server)).stdout) == {"base64": "//4="}


def test_a_pipe(server, client):
    done = amemdb("cli", url=url_of(server), stdin=FILL + '\n"oops\nNOPE\nMULTI\nNOPE\nEXEC\nPING\n')
    lines = done.stdout.splitlines()
    assert lines[:8] == [b"OK"] * 6 + [b"1", b"OK"]
    assert lines[-1] == b"PONG"
    assert any(line.startswith(b"EXECABORT") for line in lines)
    assert done.returncode == 1
    assert b"line 10: a quote is not closed" in done.stderr
    stopped = amemdb("cli", url=url_of(server), stdin="SELECT 2\nSET there x\nQUIT\nSET never x")
    assert (stopped.returncode, stopped.stdout) == (0, b"OK\nOK\nOK\n")
    assert client.dbsize() == 1


def test_json_lines(server, client):
    done = amemdb("cli", "--json", url=url_of(server), stdin=FILL + "AMEM.CONV.GET session-42 WITHMETA\nNOPE\n")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert told[0] == "OK"
    assert told[8][0]["content"] == {"base64": "SU5WLTE5MzIgG1szMW0g8J+ZgiD/"}
    assert told[9]["error"].startswith("ERR unknown command")


@pytest.mark.parametrize("command", [["cli", "PING"], ["info"], ["bench"], ["export", "-"]])
def test_no_server_is_one_line(command):
    done = amemdb(*command, "--url", "redis://127.0.0.1:1") if command[0] != "cli" else amemdb(
        "cli", "--url", "redis://127.0.0.1:1", "PING"
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert b"nothing answers at 127.0.0.1:1" in done.stderr
    wrong = amemdb(command[0], "--url", "http://secret@h", *command[1:])
    assert (wrong.returncode, wrong.stderr.count(b"\n")) == (2, 1)
    assert b"secret" not in wrong.stderr


def test_a_password_is_asked_for_in_words_and_never_shown(server, client):
    client.config_set("requirepass", "correct")
    try:
        for url in (url_of(server), f"redis://:mistaken@127.0.0.1:{server.port}"):
            done = amemdb("cli", "PING", url=url)
            assert done.returncode == 2
            assert b"asks for a password" in done.stderr
            assert b"mistaken" not in done.stderr
        right = amemdb("cli", "PING", url=f"redis://:correct@127.0.0.1:{server.port}")
        assert right.stdout == b"PONG\n"
    finally:
        redis.Redis(port=server.port, password="correct").config_set("requirepass", "")


class Terminal:
    """A command on a terminal of its own, which is typed at and read."""

    def __init__(self, *words: str, **environ: str) -> None:
        self.output = ""
        self._terminal, theirs = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "amemdb", *words],
            env={**os.environ, "TERM": "dumb", **environ},
            **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
            start_new_session=True,
        )
        os.close(theirs)

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 30
        while text not in self.output:
            assert time.monotonic() < deadline, f"waited in vain for {text!r} in {self.output!r}"
            if select.select([self._terminal], [], [], 0.1)[0]:
                self.output += os.read(self._terminal, 65536).decode(errors="replace")

    def type(self, text: str) -> None:
        self.output = ""
        os.write(self._terminal, text.encode())

    def end(self) -> int:
        """Ctrl-D until it leaves: one that comes before the prompt listens is lost."""
        deadline = time.monotonic() + 30
        while self._process.poll() is None:
            assert time.monotonic() < deadline, f"does not end: {self.output!r}"
            os.write(self._terminal, b"\x04")
            if select.select([self._terminal], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):  # the other side is gone
                    os.read(self._terminal, 65536)
        return self._process.returncode

    def kill(self) -> None:
        """Whatever state it is in."""
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


@pytest.fixture
def terminal(server: ServerProcess, tmp_path: Path) -> Iterator[Callable[[], Terminal]]:
    opened: list[Terminal] = []

    def open_one() -> Terminal:
        opened.append(Terminal("cli", AMEMDB_URL=url_of(server), XDG_STATE_HOME=str(tmp_path)))
        return opened[-1]

    yield open_one
    for one in opened:
        one.kill()


def test_the_prompt(server, client, tmp_path, terminal):
    amemdb("cli", url=url_of(server), stdin=FILL)
    terminal = terminal()
    terminal.wait_for(f"127.0.0.1:{server.port}> ")
    terminal.type("amem.conv.get session-42\r")
    terminal.wait_for("1 row")
    assert "\\x1b[31m 🙂 \\xff" in terminal.output
    terminal.type("MULTI\r")
    terminal.wait_for("(TX)> ")
    terminal.type("select 3\r")
    terminal.wait_for("QUEUED")
    terminal.type("exec\r")
    terminal.wait_for("[3]> ")
    terminal.type("auth default hunter2\r")
    terminal.wait_for(f":{server.port}[3]> ")
    terminal.type("help amem.conv.append\r")
    terminal.wait_for("Append a turn")
    assert terminal.end() == 0
    history = (tmp_path / "amemdb" / "history").read_text()
    assert "+amem.conv.get session-42\n" in history
    assert "hunter2" not in history


def test_the_prompt_asks_for_a_password_that_is_needed(server, client, terminal):
    client.config_set("requirepass", "correct")
    try:
        terminal = terminal()
        terminal.wait_for("Password for ")
        terminal.type("correct\r")
        terminal.wait_for(f":{server.port}> ")
        assert "correct" not in terminal.output
        assert terminal.end() == 0
    finally:
        redis.Redis(port=server.port, password="correct").config_set("requirepass", "")


# -- info, doctor, bench -----------------------------------------------------------------------------


def test_info_on_one_screen(server, client):
    amemdb("cli", url=url_of(server), stdin=FILL)
    done = amemdb("info", url=url_of(server))
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 100
    for part in (
        "amemdb 0.1.0",
        "1, 1 turn ",
        "1, 1 fact ",
        "1, 1 event ",
        "plain keys",
        "everysec",
        "debug: DEBUG",
    ):
        assert part in text
    told = json.loads(amemdb("info", "--json", url=url_of(server)).stdout)
    assert told["conversation_sessions"] == 1
    expected = ["debug"] if native.ENABLED else ["debug", "native code"]
    assert [finding["subject"] for finding in told["findings"] if finding["level"] != "ok"] == expected


def test_info_and_doctor_see_that_memory_is_full_and_that_it_is_no_more(server, client):
    client.config_set("maxmemory", "10mb")
    try:
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            client.set("k", "v")
        info, doctor = amemdb("info", url=url_of(server)), amemdb("doctor", url=url_of(server))
        assert (info.returncode, doctor.returncode) == (1, 1)
        shown = info.stdout.decode()
        assert "REFUSED: more than maxmemory" in " ".join(shown.split())
        assert "✗ memory: writes that add data are refused with OOM" in shown
        assert "raise it, as the server itself takes" in shown
        assert "FAIL memory" in doctor.stdout.decode()
    finally:
        client.config_set("maxmemory", 0)
    assert client.set("k", "v")
    assert client.info("errorstats")["errorstat_OOM"] == {"count": 1}
    info, doctor = amemdb("info", url=url_of(server)), amemdb("doctor", url=url_of(server))
    assert (info.returncode, doctor.returncode) == (0, 0)
    assert "OOM" not in info.stdout.decode()
    assert "ok   refusals" in doctor.stdout.decode()
    assert "it is not now" in " ".join(doctor.stdout.decode().split())


def test_a_server_is_named_by_host_and_port_alone(server, client):
    done = amemdb("cli", "--url", f"127.0.0.1:{server.port}/1", "SET", "here", "1")
    assert (done.returncode, done.stdout) == (0, b"OK\n")
    assert client.info("keyspace")["db1"]["keys"] == 1
    assert amemdb("cli", "PING", url=f"localhost:{server.port}").stdout == b"PONG\n"


@pytest.mark.parametrize("command", ["cli", "info", "doctor", "bench"])
@pytest.mark.parametrize("option", ["--port", "-p"])
def test_what_redis_cli_has_is_refused_in_words(command, option):
    done = amemdb(command, option, "7411")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert b"the server is named by --url localhost:7411" in done.stderr
    assert b"--port" not in amemdb(command, "--help").stdout


def test_doctor_finds_the_folder_of_the_server(server, client):
    done = amemdb("doctor", "--json", url=url_of(server))
    told = {(finding["section"], finding["subject"]): finding for finding in json.loads(done.stdout)}
    assert done.returncode == 0, done.stdout
    assert str(server.pid) in told["data folder", "lock"]["said"]
    assert told["data folder", "manifest"]["level"] == "ok"
    assert told[f"server at 127.0.0.1:{server.port}", "clock"]["level"] == "ok"
    text = amemdb("doctor", url=url_of(server)).stdout.decode()
    assert "this machine" in text
    assert re.search(r"works; \d to look at|all is well", text)


def test_a_start_is_worth_a_word_only_after_a_crash(tmp_path):
    folder = tmp_path / "data"
    with ServerProcess(folder) as process:
        url = url_of(process)

        def starts_told() -> list[str]:
            told = [
                *json.loads(amemdb("info", "--json", url=url).stdout)["findings"],
                *json.loads(amemdb("doctor", "--json", url=url).stdout),
            ]
            return [finding["said"] for finding in told if finding["subject"] == "uptime"]

        assert starts_told() == []
        crash = folder / "crash-2024-01-01.txt"
        crash.write_text("")
        os.utime(crash, (time.time() - 3600,) * 2)
        assert starts_told() == []
        os.utime(crash)
        assert len(starts_told()) == 2
        assert all(" ago, after a crash " in said for said in starts_told())


def test_doctor_fails_where_something_is_broken(server, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "log.manifest").write_text("nonsense\n")
    done = amemdb("doctor", "--dir", str(folder), url=url_of(server))
    assert done.returncode == 1
    assert "FAIL manifest" in done.stdout.decode()
    assert (folder / "log.manifest").read_text() == "nonsense\n"
    assert os.listdir(folder) == ["log.manifest"]
    unreachable = amemdb("doctor", "--dir", str(tmp_path / "none"), "--url", "redis://127.0.0.1:1")
    assert unreachable.returncode == 1
    assert "nothing answers" in unreachable.stdout.decode()
    assert not (tmp_path / "none").exists()


def test_bench_measures_and_leaves_nothing_behind(server, client):
    client.set("mine", "x")
    before = client.execute_command("DEBUG", "DIGEST")
    done = amemdb("bench", "--seconds", "0.1", "--pipeline", "4", url=url_of(server))
    assert (done.returncode, done.stderr) == (0, b"")
    assert "AMEM.SEM.RECALL 5" in done.stdout.decode()
    assert "Client-side figures" in done.stdout.decode()
    told = json.loads(amemdb("bench", "--seconds", "0.1", "--json", url=url_of(server)).stdout)
    assert all(figure["commands_per_second"] > 0 and 0 < figure["p50_ms"] <= figure["p99_ms"] for figure in told)
    assert client.execute_command("DEBUG", "DIGEST") == before


# -- export ------------------------------------------------------------------------------------------


def test_export_and_import_into_another_server(server, client, tmp_path):
    amemdb("cli", url=url_of(server), stdin=FILL)
    file = tmp_path / "memory.jsonl"
    done = amemdb("export", str(file), url=url_of(server))
    assert done.returncode == 0, done.stderr
    assert b"exported 7 lines in " in done.stderr
    assert b"not in it: 1 plain key," in done.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["memory.jsonl"]
    with ServerProcess(tmp_path / "data") as other:
        assert amemdb("import", str(file), "--strict", url=url_of(other)).returncode == 0
        again = amemdb("export", "-", url=url_of(other)).stdout
    assert again.splitlines()[1:] == file.read_bytes().splitlines()[1:]


def test_an_export_that_fails_leaves_the_file_that_was_there(server, client, tmp_path):
    file = tmp_path / "memory.jsonl"
    file.write_text("yesterday's\n")
    assert amemdb("export", str(file), "--force", "--url", "redis://127.0.0.1:1").returncode == 2
    assert file.read_text() == "yesterday's\n"
    assert amemdb("export", str(tmp_path / "none" / "x"), url=url_of(server)).returncode == 2


def test_an_export_replaces_a_file_only_when_told_to(server, client, tmp_path):
    file = tmp_path / "memory.jsonl"
    file.write_text("yesterday's\n")
    refused = amemdb("export", str(file), url=url_of(server))
    assert (refused.returncode, refused.stderr.count(b"\n")) == (2, 1)
    assert b"--force" in refused.stderr
    assert file.read_text() == "yesterday's\n"
    assert amemdb("export", str(file), "--force", url=url_of(server)).returncode == 0
    assert json.loads(file.read_text().splitlines()[0])["kind"] == "begin"


def test_a_cut_export_is_told(server, client, tmp_path):
    amemdb("cli", url=url_of(server), stdin=FILL)
    lines = amemdb("export", "-", url=url_of(server)).stdout.splitlines(keepends=True)
    file = tmp_path / "part.jsonl"
    file.write_bytes(b"".join(lines[:-1]))
    done = amemdb("import", str(file), "--strict", url=url_of(server))
    assert done.returncode == 1
    assert b"ends here without its last line" in done.stderr


# -- the rest ----------------------------------------------------------------------------------------


def test_config_rewrite_by_a_real_server(tmp_path):
    file = tmp_path / "amemdb.toml"
    file.write_text("# mine\nconv-window = 7  # turns\n")
    with ServerProcess(tmp_path / "data", "--config", str(file)) as process:
        url = url_of(process)
        commands = "CONFIG SET conv-window 9 requirepass hunter2\nCONFIG REWRITE\n"
        assert amemdb("cli", url=url, stdin=commands).stdout == b"OK\nOK\n"
        text = file.read_text()
    assert text.startswith("# mine\nconv-window = 9  # turns\n")
    assert 'requirepass = "hunter2"' in text
    assert "others can read it: chmod 600" in process.output
    assert "hunter2" not in process.output


def test_a_server_loads_nothing_that_draws():
    code = (
        "import sys; sys.argv = ['amemdb', 'serve', '--help']\n"
        "import amemdb.server.run\n"
        "from amemdb.__main__ import cli\n"
        "cli.main(standalone_mode=False)\n"
        "print([name for name in ('rich', 'prompt_toolkit', 'redis') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_names_every_command():
    text = amemdb("--help").stdout.decode()
    for name in ("serve", "cli", "info", "doctor", "bench", "import", "export", "completion"):
        assert re.search(rf"^  {name} +\S", text, re.MULTILINE), name


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    assert b"_AMEMDB_COMPLETE" in amemdb("completion", shell).stdout


def test_the_shell_is_answered():
    done = amemdb(_AMEMDB_COMPLETE="bash_complete", COMP_WORDS="amemdb ex", COMP_CWORD="1")
    assert done.stdout == b"plain,export\n"
