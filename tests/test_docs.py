"""The examples of the documentation run as they are printed, and the experiments that it names are accepted."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from nethack_pipe import params
from stages.appo import AppoParams
from stages.baselines import BaselinesParams
from stages.counterfactuals import CounterfactualsParams
from stages.evaluate import EvaluateParams
from stages.pretrain import PretrainParams
from stages.rollouts import RolloutsParams
from stages.sft import SftParams

ROOT = Path(__file__).parents[1]
SECTIONS = {
    "rollouts": RolloutsParams,
    "counterfactuals": CounterfactualsParams,
    "pretrain": PretrainParams,
    "sft": SftParams,
    "appo": AppoParams,
    "baselines": BaselinesParams,
    "evaluate": EvaluateParams,
}
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
EXPERIMENTS = [
    pytest.param(command, id=f"{page.name}-{number}")
    for page in PAGES
    for number, command in enumerate(
        re.findall(r"^(?:\w+=\S+ )?(dvc exp run .*-S (?:.*\\\n)*.*)$", page.read_text(), re.MULTILINE)
    )
]
BLOCKS = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in PAGES
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


@pytest.mark.parametrize("command", EXPERIMENTS)
def test_an_experiment_of_the_documentation_is_accepted(command: str, tmp_path: Path) -> None:
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    changes = [word for option, word in zip(words, words[1:], strict=False) if option == "-S"]
    assert changes
    document = yaml.safe_load((ROOT / "params.yaml").read_text())
    for change in changes:
        key, value = change.split("=")
        section, name = key.split(".", 1)
        owner = document[section]
        for part in name.split(".")[:-1]:
            owner = owner[part]
        assert name.split(".")[-1] in owner, f"{key}: params.yaml has no such key"
        # "1,2" is a sweep over both, "[1,2]" is one value.
        owner[name.split(".")[-1]] = yaml.safe_load(value if value.startswith("[") else value.split(",")[0])
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(document))
    params.load(tmp_path / "params.yaml", SECTIONS)
