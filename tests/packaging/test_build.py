"""setup.py: all twins or none, a warning where they cannot be built, and only what is new is built again."""

from __future__ import annotations

import os
import shutil
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packaging.building import OTHER, SUFFIX, Checkout

ALL = ["amemdb/_built_from.txt", f"amemdb/stores/_one{SUFFIX}", f"amemdb/stores/_other{SUFFIX}"]
WARNING = "warning: amemdb's native code could not be built"

HAS_COMPILER = shutil.which("cc") is not None and os.path.exists(
    os.path.join(sysconfig.get_path("include"), "Python.h")
)
needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="needs a C compiler and Python's headers")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@needs_compiler
def test_everything_is_built_and_only_what_changed_is_built_again(checkout):
    checkout.build()
    assert checkout.built == ALL
    assert [checkout.ask("_one"), checkout.ask("_other")] == ["42", "7"]
    before = (checkout.folder / ALL[0]).read_text()

    assert "building '" not in checkout.build().stdout
    assert (checkout.folder / ALL[0]).read_text() == before

    checkout.write("amemdb/stores/_words.pxi", "# The answer.\nANSWER = 43\n")
    later = os.stat(checkout.folder / "amemdb/stores/_one.pyx").st_mtime + 10
    os.utime(checkout.folder / "amemdb/stores/_words.pxi", (later, later))
    again = checkout.build().stdout
    assert "building 'amemdb.stores._one'" in again
    assert "building 'amemdb.stores._other'" not in again
    assert checkout.ask("_one") == "43"
    assert (checkout.folder / ALL[0]).read_text() != before


@needs_compiler
def test_where_it_is_called_from_does_not_matter(checkout, tmp_path_factory):
    done = checkout.setup("build_ext", "--inplace", cwd=tmp_path_factory.mktemp("elsewhere"))
    assert (done.returncode, checkout.built) == (0, ALL)


def test_without_a_compiler_there_is_a_warning_and_nothing_else(checkout):
    done = checkout.build(CC="no-such-compiler")
    assert checkout.built == []
    assert done.stderr.count(WARNING) == 1
    assert "apt install gcc libc6-dev python3-dev" in done.stderr


@needs_compiler
@pytest.mark.parametrize("late", [False, True], ids=["at first", "after a build that went well"])
def test_one_that_fails_takes_the_others_with_it(checkout, late):
    if late:
        checkout.build()
        assert checkout.built == ALL
    checkout.write("amemdb/stores/_other.pyx", f'{OTHER}\ncdef extern from "no-such-header.h":\n    int nothing\n')
    done = checkout.build()
    assert checkout.built == []
    assert done.stderr.count(WARNING) == 1
    assert "amemdb.stores._other" in done.stderr
    assert not list(checkout.folder.glob("build/lib*/amemdb/**/*.so"))


@needs_compiler
def test_a_mistake_in_a_twin_is_shown_to_who_works_on_it_and_no_reason_not_to_install(checkout):
    checkout.build()
    checkout.write("amemdb/stores/_other.pyx", f"{OTHER}\ncdef nonsense(:\n")
    by_hand = checkout.setup("build_ext", "--inplace")
    assert by_hand.returncode != 0
    assert "_other.pyx:" in by_hand.stdout + by_hand.stderr
    installing = checkout.setup("bdist_wheel")
    assert (installing.returncode, installing.stderr.count(WARNING)) == (0, 1)
    (wheel,) = (checkout.folder / "dist").glob("*.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(SUFFIX)]


@needs_compiler
def test_a_wheel_has_the_twins_and_their_types_and_a_source_distribution_their_sources(checkout):
    assert checkout.setup("-q", "sdist", "bdist_wheel").returncode == 0
    (wheel,) = (checkout.folder / "dist").glob("*.whl")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("amemdb/")}
    python = {"amemdb/__init__.py", "amemdb/stores/__init__.py"}
    assert inside == {*ALL, *python, "amemdb/py.typed", "amemdb/stores/_one.pyi"}
    (archive,) = (checkout.folder / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    sources = {"_one.pyx", "_one.pyi", "_words.pxi", "_other.pyx"}
    assert names >= {
        "setup.py",
        "pyproject.toml",
        "README.md",
        "amemdb/py.typed",
        *(f"amemdb/stores/{n}" for n in sources),
    }
    assert not [name for name in names if name.endswith((".c", ".so")) or name == ALL[0]]
