"""CONFIG REWRITE: what becomes of the text, and of the file."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from random import Random
from typing import Any

import pytest

from amemdb.config import SETTINGS, Config
from amemdb.config_file import ConfigFile, Unwritable, rewritten

TEXT = """\
# The server of the shop.
port = 7000   # not the usual one
"conv-window" = 500

requirepass = \"\"\"two
# lines\"\"\"   # and a # comment
log-segment-bytes = "64mb"
"""


def values(**changed: Any) -> dict[str, Any]:
    return Config({name.replace("_", "-"): value for name, value in changed.items()}).values()


def test_what_says_it_already_stays_as_it_is_written():
    assert rewritten(TEXT, values(port=7000, conv_window=500, requirepass="two\n# lines")) == TEXT


def test_a_change_keeps_its_place_and_its_comment():
    after = rewritten(TEXT, values(port=7001, conv_window=500, requirepass='a"#\\\x7fé\n', log_segment_bytes=5 << 30))
    assert after.splitlines() == [
        "# The server of the shop.",
        "port = 7001  # not the usual one",
        '"conv-window" = 500',
        "",
        'requirepass = "a\\"#\\\\\\u007fé\\n"  # and a # comment',
        'log-segment-bytes = "5gb"',
    ]


def test_what_is_not_in_the_file_goes_to_its_end_once():
    once = rewritten("port = 7000", values(port=7000, appendfsync="always", enable_debug_command=True))
    assert once == 'port = 7000\n\n# Written by CONFIG REWRITE:\nappendfsync = "always"\nenable-debug-command = true\n'
    again = rewritten(once, values(port=7000, appendfsync="no", enable_debug_command=True, timeout=9))
    assert again.count("CONFIG REWRITE") == 1
    assert tomllib.loads(again) == {"port": 7000, "appendfsync": "no", "enable-debug-command": True, "timeout": 9}


def test_a_value_that_no_longer_fits_is_replaced():
    assert rewritten('timeout = "x"\n', values(timeout=5)) == "timeout = 5\n"


def test_line_ends_of_another_system_stay():
    after = rewritten("# a\r\nport = 1\r\ntimeout = 2\r\n", values(port=1, timeout=3))
    assert after == "# a\r\nport = 1\r\ntimeout = 3\r\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port = ", "not TOML"),
        ("[table]\nport = 1\n", "setting that there is not: table"),
        ("save = ''\n", "setting that there is not: save"),
        ("port = 1\nport = 1\n", "twice"),
    ],
)
def test_a_file_that_is_none_of_settings_is_left_alone(text, said):
    with pytest.raises(Unwritable, match=said):
        rewritten(text, values(port=1))


def test_a_password_that_is_not_text_cannot_be_written():
    config = Config()
    config.set_many([("requirepass", b"\xff".decode("utf-8", "surrogateescape"))])
    with pytest.raises(Unwritable, match="requirepass is not text"):
        rewritten("", config.values())


def test_any_passwords_are_read_back():
    random = Random(7)
    for _ in range(300):
        password = "".join(random.choices("ab\"'\\#\n\r\t =[]{}\x01\x1f\x7f\u2028é🙂", k=random.randint(1, 12)))
        if "\r" in password and random.random() < 0.5:
            continue
        text = "# note \u2028 still a note\n" + rewritten("", values(requirepass=password))
        changed = rewritten(text, values(requirepass=password + "x", timeout=1))
        assert tomllib.loads(changed)["requirepass"] == password + "x"


# -- the file ----------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "amemdb.toml"
    path.write_text("timeout = 1\n")
    path.chmod(0o640)
    return path


def loaded(file: Path, exposed: list[str] | None = None) -> tuple[Config, ConfigFile]:
    config = Config.load({}, {}, file)
    return config, ConfigFile(file, config, (exposed if exposed is not None else []).append)


def test_the_file_is_replaced_whole_with_its_permissions(file: Path) -> None:
    exposed: list[str] = []
    config, written = loaded(file, exposed)
    config.set_many([("appendfsync", "no")])
    before = file.stat().st_ino
    assert written.rewrite() is None
    assert Config.load({}, {}, file).values() == config.values()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert file.stat().st_ino != before
    assert os.listdir(file.parent) == [file.name]
    assert exposed == []
    config.set_many([("requirepass", "hunter2")])
    assert written.rewrite() is None
    assert len(exposed) == 1
    assert "hunter2" not in exposed[0]


def test_nothing_to_change_touches_nothing(file: Path) -> None:
    before = file.stat()
    assert loaded(file)[1].rewrite() is None
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_symbolic_link_goes_on_leading_to_the_file(file: Path) -> None:
    link = file.with_name("link.toml")
    link.symlink_to(file.name)
    config, written = loaded(link)
    config.set_many([("conv-window", "5")])
    assert written.rewrite() is None
    assert link.is_symlink()
    assert "conv-window = 5" in file.read_text()


def test_a_file_that_is_gone_is_made_again_for_its_owner_only(file: Path) -> None:
    _, written = loaded(file)
    file.unlink()
    assert written.rewrite() is None
    assert tomllib.loads(file.read_text()) == {"timeout": 1}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_failure_is_told_and_leaves_the_file_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, written = loaded(file)
    config.set_many([("conv-window", "5")])

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert written.rewrite() == "No space left on device"
    assert file.read_text() == "timeout = 1\n"
    assert os.listdir(file.parent) == [file.name]
    file.write_text("nonsense")
    assert written.rewrite() == "the file is not TOML any more"
    file.unlink()
    file.mkdir()
    assert written.rewrite() == "Is a directory"


def test_every_setting_can_be_written(file: Path) -> None:
    for setting in SETTINGS:
        if not setting.fact:
            assert rewritten("", {**Config().values(), setting.name: setting.default}) == ""
