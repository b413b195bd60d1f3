"""A real dask cluster on this machine."""

import os
import subprocess
import sys
from pathlib import Path

from distributed import Client

from tests.helpers.chunks import wait_for
from tests.helpers.toy import ROOT, kill_group


class Dask:
    """A scheduler and its workers, each a process of its own. Workers start in `folder`, not where the caller is."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0")

    def start_worker(self, threads: int = 1, code: Path = ROOT) -> subprocess.Popen[bytes]:
        options = ("--nthreads", str(threads), "--local-directory", str(self._folder))
        return self._start("worker", *options, PYTHONPATH=str(code))

    def wait_for_workers(self, count: int) -> None:
        wait_for(self.file.exists)
        with Client(scheduler_file=str(self.file), set_as_default=False) as client:
            client.wait_for_workers(count, timeout=20)

    def stop(self) -> None:
        for process in self._processes:
            kill_group(process)
            process.wait()

    def _start(self, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments, "--scheduler-file", str(self.file), "--no-dashboard"],
            cwd=self._folder,
            env=os.environ | variables | {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"},
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._processes.append(process)
        return process
