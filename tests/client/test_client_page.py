"""What `docs/client.md` shows runs as it stands, and names what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import amemdb
from amemdb.client import errors, results, urls
from tests.process import ServerProcess

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")


def test_the_code_runs_and_prints_what_the_text_says(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert PAGE.count("```python") == len(blocks) > 5
    with ServerProcess(tmp_path / "data") as server:
        program = "\n".join(blocks).replace("6379", str(server.port))
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "[{'role': 'user', 'content': 'My invoice shows the wrong VAT number.'}]"
    assert lines[1] == "vat-policy 1.0 handbook"
    assert lines[2].endswith(" My invoice shows the wrong VAT number.")
    assert lines[3:] == [
        "{'page': 12}",
        "True True ['user', 'assistant']",
        "somebody else wrote version 1",
        "2 ['ann-1']",
    ]


def test_the_page_names_every_error_result_scheme_and_iterator() -> None:
    named = {
        name for name, value in vars(errors).items() if isinstance(value, type) and value.__module__ == errors.__name__
    }
    named |= {"Turn", "Fact", "Event", "Summary", "Found"}
    assert all(hasattr(results, name) or hasattr(errors, name) for name in named)
    named |= {name for name in dir(amemdb.Client) if name.startswith("amem_") and name.endswith("_iter")}
    named |= {f"{scheme}://" for scheme in urls.SCHEMES}
    assert [name for name in sorted(named) if f"`{name}" not in PAGE] == []
