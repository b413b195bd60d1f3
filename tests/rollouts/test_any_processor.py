import pytest

from tests.helpers.emulate import needs_qemu, run_python


@pytest.mark.slow
@needs_qemu
@pytest.mark.parametrize("module", ["play_process", "record_process"])
def test_games_and_their_records_are_the_same_on_any_processor(module: str) -> None:
    program = ["-W", "ignore", "-m", f"tests.helpers.{module}"]
    assert run_python(program, cpu="Haswell") == run_python(program)
