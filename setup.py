"""Builds the compiled twins (`*.pyx`), where there is a C compiler; everything else is said in pyproject.toml.

All of them or none: a process that ran some twins beside old or missing ones would be a thing that no test has seen.
Where one cannot be built, what was built of the others is taken away again, a warning says why, and the install
succeeds: the server then runs the plain-Python reference.

Beside the package goes `_built_from.txt`, the digest of the sources that the twins were built from. In a checkout a
test compares, as nothing else would tell that somebody edits one thing and runs another.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
PACKAGE = Path("amemdb")
BUILT_FROM = PACKAGE / "_built_from.txt"
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "binding": False,
    "always_allow_keywords": False,
}
FLAGS = ["-O3", "-g0", "-fno-strict-aliasing", "-Wno-unreachable-code", "-Wno-unused-function"]
"""Without what a debugger wants to know, which is four fifths of the files and a quarter of the time to build them."""
WARNING = """\
warning: amemdb's native code could not be built: {}
         Everything works without it, several times slower. It needs a C compiler and Python's headers (on Debian and
         Ubuntu: apt install gcc libc6-dev python3-dev). Install them, then install amemdb again.
"""


def sources(root: Path = ROOT) -> list[Path]:
    """What the twins are made of, this file included, as its flags decide as well."""
    native = [path for kind in ("pyx", "pxd", "pxi") for path in (root / PACKAGE).rglob(f"*.{kind}")]
    return [*sorted(native), root / "setup.py"]


def digest(root: Path = ROOT) -> str:
    """What names one state of all sources."""
    seen = hashlib.sha256()
    for path in sources(root):
        data = path.read_bytes()
        seen.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode())
        seen.update(data)
    return seen.hexdigest()


def twins() -> list[Extension]:
    """One extension module for each `.pyx` file of the package."""
    return [
        Extension(".".join(path.with_suffix("").parts), [str(path)], extra_compile_args=FLAGS)
        for path in sorted(PACKAGE.rglob("*.pyx"))
    ]


class BuildTwins(build_ext):
    """Builds all twins, in parallel, or none."""

    def finalize_options(self) -> None:
        """Use every core."""
        super().finalize_options()
        self._failures: list[str] = []
        if self.parallel is None:
            self.parallel = os.cpu_count()

    def run(self) -> None:
        """Build, and clean up if anything could not be."""
        built_from = digest()
        try:
            self._translate()
        except Exception as error:
            if self.inplace and not self.editable_mode:
                raise  # somebody at work on a twin wants to see the mistake, and to keep the others
            self._failures.append(_in_a_line(error))
        else:
            super().run()
        if self._failures:
            self._take_away()
            sys.stderr.write(WARNING.format(self._failures[0]))
        else:
            for place in self._places(BUILT_FROM):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(f"{built_from}\n", encoding="ascii")

    def _translate(self) -> None:
        """Cython to C. Not before something is built: a source distribution has to name the sources."""
        import Cython
        from Cython.Build import cythonize

        # C that another Cython made is not up to date, nor is what other directives made.
        folder = Path("build") / f"cython-{Cython.__version__}"
        changed_s = Path("setup.py").stat().st_mtime
        old = any(path.stat().st_mtime < changed_s for path in folder.rglob("*.c"))
        translated = cythonize(
            twins(),
            compiler_directives=DIRECTIVES,
            build_dir=str(folder),
            nthreads=self.parallel,
            force=old or bool(self.force),
        )
        by_name = {twin.name: twin for twin in translated}
        for extension in self.extensions:
            twin = by_name[extension.name]
            extension.sources, extension.depends = twin.sources, [*twin.depends, "setup.py"]

    def build_extension(self, ext: Extension) -> None:
        """Build one, and note why it could not be."""
        try:
            super().build_extension(ext)
        except Exception as error:
            self._failures.append(f"{ext.name}: {_in_a_line(error)}")

    def copy_extensions_to_source(self) -> None:
        """Put them beside their sources, for a checkout, if there are all of them."""
        if not self._failures:
            super().copy_extensions_to_source()

    def get_source_files(self) -> list[str]:
        """What a source distribution has to hold."""
        return [str(path.relative_to(ROOT)) for path in sources()]

    def _take_away(self) -> None:
        """Leave nothing behind that would be taken for a twin."""
        built = [Path(self.get_ext_filename(extension.name)) for extension in self.extensions]
        for path in [*built, BUILT_FROM]:
            for place in self._places(path):
                place.unlink(missing_ok=True)

    def _places(self, path: Path) -> list[Path]:
        """Where a built file goes: to what a wheel is made of, and into the checkout if that is asked for."""
        return [Path(self.build_lib) / path, *([path] if self.inplace else [])]


def _in_a_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    os.chdir(ROOT)  # names of sources and of what is built are relative, wherever this was called from
    setup(ext_modules=twins(), cmdclass={"build_ext": BuildTwins})
