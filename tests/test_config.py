"""Settings: where values come from, what is refused and how it is told, CONFIG SET, and what is derived."""

import subprocess
import sys
from pathlib import Path

import pytest

from amemdb.cli.serve import serve
from amemdb.config import BY_NAME, NOT_SETTINGS, SETTINGS, Config, ConfigError, unknown_variables, variable_warnings
from amemdb.config_page import page
from amemdb.errors import CommandError
from amemdb.setting import Choice, Integer, Size, Switch

CHANGEABLE = [setting.name for setting in SETTINGS if setting.changeable]


def written(tmp_path: Path, text: str | bytes) -> Path:
    file = tmp_path / "server.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


# -- sources -----------------------------------------------------------------------------------------


def test_defaults_are_typed_and_have_a_text():
    config = Config()
    assert config.get("port") == 6379
    assert config.text("port") == "6379"
    assert config.get("enable-debug-command") is False
    assert config.text("enable-debug-command") == "no"
    assert config.get("output-buffer-limit") == 1 << 30
    assert config.text("output-buffer-limit") == "1073741824"


def test_tools_that_ask_about_saving_get_an_answer():
    config = Config()
    assert (config.text("appendonly"), config.text("save"), config.text("databases")) == ("yes", "", "16")


def test_flag_goes_before_environment_and_that_before_file_and_that_before_default(tmp_path):
    file = written(tmp_path, "port = 1001\nmaxclients = 1001\ntimeout = 1001")
    environ = {"AMEMDB_PORT": "1002", "AMEMDB_MAXCLIENTS": "1002"}
    config = Config.load({"port": "1003"}, environ, file)
    assert config.get("port") == 1003
    assert config.get("maxclients") == 1002
    assert config.get("timeout") == 1001
    assert config.get("tcp-backlog") == BY_NAME["tcp-backlog"].default


def test_every_setting_can_be_given_in_every_place(tmp_path):
    for setting in SETTINGS:
        if setting.fact:
            continue
        text = setting.kind.text(setting.default) or "word"
        toml = text if isinstance(setting.kind, Integer) and not isinstance(setting.kind, Size) else f"'{text}'"
        from_flag = Config.load({setting.name: text}, {}, None)
        from_environment = Config.load({}, {setting.variable: text}, None)
        from_file = Config.load({}, {}, written(tmp_path, f"{setting.name} = {toml}"))
        assert from_flag.text(setting.name) == from_environment.text(setting.name) == from_file.text(setting.name)


def test_an_empty_variable_is_not_set():
    assert Config.load({}, {"AMEMDB_PORT": ""}, None).get("port") == 6379


def test_variables_that_name_no_setting_are_found():
    environ = {"AMEMDB_CONV_WINDOWS": "1", "AMEMDB_PORT": "1", "AMEMDB_URL": "x", "AMEMDB_SAVE": "60", "HOME": "y"}
    assert unknown_variables(environ) == ["AMEMDB_CONV_WINDOWS", "AMEMDB_SAVE"]


@pytest.mark.parametrize(("value", "lines"), [("", 0), ("0", 0), ("1", 0), ("no", 1), ("2", 1), ("\x1b[31m", 1)])
def test_a_choice_of_native_code_that_is_none_is_found(value, lines):
    told = variable_warnings({"AMEMDB_NATIVE": value})
    assert len(told) == lines
    assert all(line.isprintable() and line.startswith("AMEMDB_NATIVE is '") for line in told)
    assert variable_warnings({"AMEMDB_X": "1"}) == ["AMEMDB_X is set, but there is no such setting"]


def test_variables_that_are_no_settings_are_described():
    for name in NOT_SETTINGS:
        assert f"| `{name}` |" in page()


def test_values_given_in_python_are_checked(tmp_path):
    assert Config({"port": 0, "dir": str(tmp_path), "log-segment-bytes": "1mb"}).get("log-segment-bytes") == 1 << 20
    with pytest.raises(ConfigError, match="port: expected an integer from 0 to 65535, got 'true'"):
        Config({"port": True})


# -- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("prot = 1", r"prot: there is no such setting, did you mean port\?"),
        ("Port = 1", r"Port: there is no such setting"),
        ("[server]\nport = 1", r"server: expected settings as flat keys, like port = 6379, and got a table of them$"),
        ("a.b = 1", r"a: expected settings as flat keys"),
        ("port = '1'", r"port: expected an integer from 0 to 65535, got '1'; leave out the quotes$"),
        ("port = 'x'", r"got 'x'$"),
        ("requirepass = 1234", r"requirepass: expected text; put it in quotes$"),
        ("requirepass = true", r"requirepass: expected text$"),
        ("port = 1.0", r"port: expected an integer from 0 to 65535, got '1\.0'"),
        ("port = true", r"port: expected an integer from 0 to 65535, got 'true'"),
        ("port = 65536", r"port: expected an integer from 0 to 65535, got '65536'"),
        ("port = -1", r"port: expected an integer"),
        ("appendfsync = 'sometimes'", r"appendfsync: expected always, everysec or no, got 'sometimes'"),
        ("appendfsync = false", r"appendfsync: expected always, everysec or no"),
        ("enable-debug-command = 1", r"enable-debug-command: expected yes or no, got '1'"),
        ("log-segment-bytes = '64 mb'", r"log-segment-bytes: expected a size from 4kb to 64gb"),
        ("log-segment-bytes = 1.5", r"log-segment-bytes: expected a size"),
        ("host = ''", r"host: expected text without blanks"),
        ("dir = 'a\\u0000b'".replace("'", '"'), r"dir: expected the path of a folder"),
        ("databases = 16", r"databases: cannot be set, it is always '16'"),
        ("port = ", r"expected TOML: "),
        ("port = 1\nport = 2", r"expected TOML: "),
        ("port = " + "9" * 5000, r"expected TOML: "),
        (b"host = '\xff'", r"expected TOML in UTF-8"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name(tmp_path, toml, told):
    file = written(tmp_path, toml)
    with pytest.raises(ConfigError, match=told) as caught:
        Config.load({}, {}, file)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        Config.load({}, {}, tmp_path / "none.toml")


@pytest.mark.parametrize("text", ["", " 1", "1 ", "+1", "1_0", "0x10", "١", "1.0", "9" * 30, "nan"])
def test_integers_are_strict(text):
    with pytest.raises(ConfigError, match=r"^--port: expected an integer from 0 to 65535"):
        Config.load({"port": text}, {}, None)


def test_a_wrong_variable_is_told_by_its_own_name():
    with pytest.raises(
        ConfigError, match=r"^AMEMDB_PORT: expected an integer from 0 to 65535, got 'tcp://10\.0\.0\.1:6"
    ):
        Config.load({}, {"AMEMDB_PORT": "tcp://10.0.0.1:6379"}, None)


@pytest.mark.parametrize(
    ("text", "bytes_count"),
    [("4096", 4096), ("4096b", 4096), ("5k", 5000), ("5KB", 5120), ("1m", 10**6), ("64mb", 64 << 20), ("1Gb", 1 << 30)],
)
def test_sizes_take_the_units_of_redis(text, bytes_count):
    assert Config.load({"log-segment-bytes": text}, {}, None).get("log-segment-bytes") == bytes_count


@pytest.mark.parametrize("text", ["mb", "1tb", "-1mb", "1.5mb", "1 mb", "1mb ", "9999999999gb", "٤mb"])
def test_sizes_are_strict(text):
    with pytest.raises(ConfigError, match="expected a size"):
        Config.load({"log-segment-bytes": text}, {}, None)


def test_a_password_does_not_show_in_a_refusal(tmp_path):
    with pytest.raises(ConfigError) as caught:
        Config.load({}, {}, written(tmp_path, "requirepass = 777123"))
    assert "777123" not in str(caught.value)
    with pytest.raises(CommandError) as refused:
        Config().set_many([("requirepass", "hush\0hush")])
    assert "hush" not in refused.value.message


def test_an_odd_value_stays_one_printable_line():
    with pytest.raises(ConfigError) as caught:
        Config.load({"port": "1\n\x1b[2J" + "x" * 1000}, {}, None)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


# -- CONFIG SET --------------------------------------------------------------------------------------


def test_changes_are_made_in_any_case_and_told_to_who_asked():
    config, heard = Config(), []
    config.on_change("conv-window", heard.append)
    config.set_many([("CONV-Window", "7"), ("appendfsync", "ALWAYS")])
    assert (config.get("conv-window"), config.text("appendfsync")) == (7, "always")
    assert heard == [7]
    config.set_many([("conv-window", "7")])
    assert heard == [7], "nothing changed, so nothing is told"


def test_all_changes_or_none():
    config, heard = Config(), []
    config.on_change("conv-window", heard.append)
    with pytest.raises(CommandError, match=r"related to argument 'appendfsync'.*expected always, everysec or no"):
        config.set_many([("conv-window", "7"), ("appendfsync", "hourly")])
    assert config.get("conv-window") == 1000
    assert heard == []


def test_listeners_see_all_changes_of_one_call():
    config, seen = Config(), []
    config.on_change("conv-window", lambda value: seen.append(config.get("appendfsync")))
    config.set_many([("conv-window", "7"), ("appendfsync", "no")])
    assert seen == ["no"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([("port", "1")], "'port'.*immutable"),
        ([("nosuch", "1")], "Unknown option.*'nosuch'"),
        ([("conv-window", "1"), ("CONV-WINDOW", "2")], "'CONV-WINDOW'.*duplicate"),
        ([("conv-window", "0")], "'conv-window'.*from 1 to 1000000, got '0'"),
        ([("conv-window", "")], "'conv-window'.*expected an integer"),
        ([("appendonly", "no")], "'appendonly'.*immutable"),
        ([("a\r\nb", "1")], r"Unknown option.*'a\?\?b'"),
    ],
)
def test_what_cannot_be_changed_is_refused_by_name(changes, told):
    config = Config()
    before = {name: config.text(name) for name in config.names()}
    with pytest.raises(CommandError, match=told):
        config.set_many(changes)
    assert {name: config.text(name) for name in config.names()} == before


def test_a_fact_may_be_set_to_what_it_is():
    config = Config()
    config.set_many([("save", ""), ("appendonly", "yes")])
    assert config.text("appendonly") == "yes"


# -- the table itself --------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_default_fits_its_own_kind(setting):
    assert setting.kind.accept(setting.default) == setting.default
    assert setting.kind.parse(setting.kind.text(setting.default)) == setting.default
    assert setting.kind.parse(setting.kind.label(setting.default)) == setting.default
    assert setting.doc.endswith(".")
    assert setting.name == setting.name.lower().replace("_", "-")


def test_names_are_declared_once():
    assert len(BY_NAME) == len(SETTINGS)
    assert CHANGEABLE


def test_each_setting_is_an_option_of_serve_and_no_fact_is():
    options = {option for parameter in serve.params for option in parameter.opts}
    assert options == {"--config"} | {f"--{setting.name}" for setting in SETTINGS if not setting.fact}


def test_help_shows_default_and_meaning_of_each_setting():
    shown = " ".join(serve.get_help(serve.make_context("serve", [])).split())
    for setting in SETTINGS:
        if not setting.fact:
            assert setting.doc in shown
            assert f"[default: {setting.kind.label(setting.default) or 'none'}" in shown


def test_kinds_say_what_they_expect():
    assert Integer(1).expected == "an integer of at least 1"
    assert Size(1024).expected == "a size of at least 1kb, in bytes or with a unit like 64mb"
    assert Choice(("a", "b", "c")).expected == "a, b or c"
    assert Switch().text(True) == "yes"


# -- the command line --------------------------------------------------------------------------------


def amemdb(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "amemdb", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("serve", "--port", "x"), "amemdb: --port: expected an integer from 0 to 65535, got 'x'\n"),
        (("serve", "--config", "no-such.toml"), "amemdb: no-such.toml: cannot be read: No such file or directory\n"),
        (("server",), "amemdb: No such command 'server'."),
        (("serve", "--prot", "1"), "amemdb: No such option"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(arguments, told):
    run = amemdb(*arguments)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith(told)
    assert run.stderr.count("\n") == 1


def test_version():
    run = amemdb("--version")
    assert run.returncode == 0
    assert run.stdout.startswith("amemdb 0.")
