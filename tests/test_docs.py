"""The examples of the documentation run as they are printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in sorted(ROOT.glob("docs/*.md"))
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))
]


@pytest.mark.parametrize("code", BLOCKS)
def test_an_example_runs(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
