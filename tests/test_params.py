"""params.yaml as users and ``dvc exp run -S`` write it: a wrong value is one line with its place and what is right."""

from pathlib import Path
from typing import Literal

import pytest
from dvc.utils.serialize import parse_yaml
from pydantic import Field, model_validator

from nethack_pipe.params import ParamError, Section, load, read_yaml


class Mixture(Section):
    random: float = Field(ge=0, le=1)
    frontier: float = Field(ge=0, le=1)


class Appo(Section):
    batch_size: int = Field(gt=0)
    rollout: int = Field(gt=0)
    gamma: float = Field(ge=0, le=1)
    policy: Literal["random", "frontier"]
    enabled_skills: tuple[Literal["explore", "combat"], ...] = Field(min_length=1)
    mixture: Mixture
    weights: dict[str, float]
    limit: int | None
    serial_mode: bool
    device: str

    @model_validator(mode="after")
    def _batches_are_whole(self) -> "Appo":
        if self.batch_size % self.rollout:
            raise ValueError(f"batch_size: expected a multiple of rollout ({self.rollout}), got {self.batch_size}")
        if self.weights.get("death", 0) > 0:
            raise ValueError("weights.death: expected a loss")
        return self


GOOD = """\
base: {seed: 1}
appo:
  batch_size: 64
  rollout: 32
  gamma: 0.99
  policy: random
  enabled_skills: [explore, combat]
  mixture: {random: 0.5, frontier: 0.5}
  weights: {death: -100}
  limit: null
  serial_mode: true
  device: cpu
"""


def read(tmp_path: Path, text: str) -> Appo:
    (tmp_path / "params.yaml").write_text(text)
    return load(tmp_path / "params.yaml", {"appo": Appo})["appo"]


def refused(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ParamError) as caught:
        read(tmp_path, text)
    return caught.value.lines


def test_good_values_arrive_with_their_types(tmp_path: Path) -> None:
    appo = read(tmp_path, GOOD)
    assert appo.batch_size == 64 and appo.limit is None and appo.serial_mode is True
    assert appo.enabled_skills == ("explore", "combat")
    assert isinstance(appo.weights["death"], float) and appo.mixture.frontier == 0.5


@pytest.mark.parametrize("written", ["1e-5", "1e-05", "1.0e-5", "0.00001", ".00001"])
def test_what_dvc_writes_for_a_small_number_is_a_float(tmp_path: Path, written: str) -> None:
    assert read(tmp_path, GOOD.replace("0.99", written)).gamma == 1e-5


@pytest.mark.parametrize(
    ("right", "wrong", "line"),
    [
        ("batch_size: 64", "batch_size: abc", "batch_size: expected an integer greater than 0, got 'abc'"),
        ("batch_size: 64", "batch_size: ''", "batch_size: expected an integer greater than 0, got ''"),
        ("batch_size: 64", "batch_size: ", "batch_size: expected an integer greater than 0, got null"),
        ("batch_size: 64", "batch_size: 0", "batch_size: expected an integer greater than 0, got 0"),
        ("batch_size: 64", "batch_size: -64", "batch_size: expected an integer greater than 0, got -64"),
        ("batch_size: 64", "batch_size: 1000.0", "batch_size: expected an integer greater than 0, got 1000.0"),
        ("batch_size: 64", "batch_size: '64'", "batch_size: expected an integer greater than 0, got '64'"),
        ("batch_size: 64", "batch_size: 1_000", "batch_size: expected an integer greater than 0, got '1_000'"),
        ("batch_size: 64", "batch_size: [64]", "batch_size: expected an integer greater than 0, got [64]"),
        ("batch_size: 64", "batch_size: 100", "batch_size: expected a multiple of rollout (32), got 100"),
        ("batch_size: 64", "", "batch_size: the key is missing; expected an integer greater than 0"),
        ("gamma: 0.99", "gamma: 1.5", "gamma: expected a number at least 0 and at most 1, got 1.5"),
        ("gamma: 0.99", "gamma: .nan", "gamma: expected a number at least 0 and at most 1, got NaN"),
        ("gamma: 0.99", "gamma: true", "gamma: expected a number at least 0 and at most 1, got true"),
        ("policy: random", "policy: on", "policy: expected one of 'random', 'frontier', got 'on'"),
        ("serial_mode: true", "serial_mode: yes", "serial_mode: expected true or false, got 'yes'"),
        ("[explore, combat]", "[explore, dig]", "enabled_skills[1]: expected one of 'explore', 'combat', got 'dig'"),
        ("frontier: 0.5", "frontier: 2", "mixture.frontier: expected a number at least 0 and at most 1, got 2"),
        ("death: -100", "death: much", "weights.death: expected a number, got 'much'"),
        ("death: -100", "death: 1", "weights.death: expected a loss"),
        ("limit: null", "limit: a", "limit: expected an integer or null, got 'a'"),
        ("device: cpu", "device: cpu\n  batchsize: 1", "batchsize: unknown key; did you mean batch_size?"),
        ("death: -100}", "death: -100}\n  new-key: 1", "new-key: unknown key; known are batch_size, rollout, gamma, "
         "policy, enabled_skills, mixture, weights, limit, serial_mode, device"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_one_line_with_its_key(tmp_path: Path, right: str, wrong: str, line: str) -> None:
    assert right in GOOD
    assert refused(tmp_path, GOOD.replace(right, wrong)) == [f"params.yaml: appo.{line}"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("appo: 3", "appo: expected a section (keys with values), got 3"),
        ("appo:", "appo: expected a section (keys with values), got null"),
        ("apo: {}", "appo: the section is missing; did you mean apo?"),
        ("", "expected sections with keys, got null"),
        ("appo: {a: 1, a: 2}", "line 1, column 14: the key 'a' is there twice"),
        ("appo: {a: 1", "line 1, column 12: expected ',' or '}', but got '<stream end>'"),
        ("appo: !!python/name:os.getcwd", "line 1, column 7: could not determine a constructor for the tag "
         "'tag:yaml.org,2002:python/name:os.getcwd'"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_sections(tmp_path: Path, text: str, line: str) -> None:
    assert refused(tmp_path, text) == [f"params.yaml: {line}"]


def test_all_wrong_values_are_told_at_once(tmp_path: Path) -> None:
    lines = refused(tmp_path, GOOD.replace("64", "0").replace("0.99", "7"))
    assert [line.split(": ")[1] for line in lines] == ["appo.batch_size", "appo.gamma"]


def test_a_validator_can_name_several_keys_and_the_section_itself(tmp_path: Path) -> None:
    class Many(Section):
        size: int

        @model_validator(mode="after")
        def _all_wrong(self) -> "Many":
            raise ValueError("size: too much\nsize.inner: why\nno such: key")

    (tmp_path / "params.yaml").write_text("many: {size: 1}")
    with pytest.raises(ParamError) as caught:
        load(tmp_path / "params.yaml", {"many": Many})
    assert caught.value.lines == [
        "params.yaml: many.size: too much",
        "params.yaml: many.size.inner: why",
        "params.yaml: many: no such: key",
    ]


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ParamError, match="params.yaml: there is no such file in"):
        load(tmp_path / "params.yaml", {"appo": Appo})


SCALARS = """1e-05 1e-5 1E5 1e+3 1. .5 -.5 12 +12 -12 010 0o17 0x1F 12:30 12:30:00 yes no on off y n Yes true True TRUE
false null Null ~ .inf -.inf 1.2.3 abc '1' "1e-5" 0b11x e5 1e +"""


@pytest.mark.parametrize("scalar", SCALARS.split())
def test_scalars_are_read_as_dvc_reads_them(tmp_path: Path, scalar: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(f"key: {scalar}\n")
    ours, theirs = read_yaml(path)["key"], parse_yaml(path.read_text(), path)["key"]
    assert (type(ours), ours) == (type(theirs), theirs)


class Weights(Section):
    death: float = -100.0


class Tasks(Section):
    explore: Weights = Weights()
    combat: Weights = Weights()


def test_a_key_that_is_not_written_is_missing_even_where_the_model_has_a_default(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("rewards: {explore: {}}\n")
    with pytest.raises(ParamError) as refused:
        load(path, {"rewards": Tasks})
    assert refused.value.lines == [
        "params.yaml: rewards.explore.death: the key is missing",
        "params.yaml: rewards.combat: the key is missing",
    ]
    path.write_text("rewards: {explore: {death: -1}, combat: {death: -2.5}}\n")
    tasks = load(path, {"rewards": Tasks})["rewards"]
    assert (tasks.explore.death, tasks.combat.death) == (-1, -2.5)
