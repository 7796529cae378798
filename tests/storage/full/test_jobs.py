"""Jobs that several processes want."""

from __future__ import annotations

import subprocess
import sys

import pytest

from langchain_agentmem.storage import jobs

NOW = 1_000_000_000


class TestTaking:
    @pytest.mark.slow
    def test_no_job_is_ever_shared_by_processes(self, memory, url):
        for number in range(40):
            memory.database.engine.write(lambda key=str(number): jobs.enqueue(jobs.WantedJob("", "work", key), now=NOW))
        script = (
            "import sys\nfrom langchain_agentmem.storage import jobs, open_engine\n"
            "engine = open_engine(sys.argv[1])\nprint('ready', flush=True)\nsys.stdin.readline()\n"
            f"while job := engine.write(lambda: jobs.claim('work', sys.argv[2], now={NOW}, lease=60.0)):\n"
            "    print(job.key)\nengine.close()\n"
        )
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", script, url, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for name in "ab"
        ]
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        taken = [key for process in processes for key in process.communicate(timeout=60)[0].split()]
        assert sorted(taken, key=int) == [str(number) for number in range(40)]
