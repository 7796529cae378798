"""After `kill -9` the database verifies, and holds every acknowledged write; `tests/faults` kills at any point."""

import signal
import subprocess
import sys
import textwrap

from langchain_agentmem import AgentMemory


def test_acknowledged_writes_survive_kill_and_others_do_not(url):
    script = """
        import os, signal, sys
        from langchain_agentmem import AgentMemory
        from tests.storage.sessions import add_texts, appending, entry

        def half(tx):
            appending(entry("half"))(tx)
            os.kill(os.getpid(), signal.SIGKILL)

        memory = AgentMemory(sys.argv[1])
        for number in range(40):
            add_texts(memory, *(f"said {number} {n}" for n in range(1 + number % 3)))
            print("acknowledged", flush=True)
        memory.database.engine.write(half)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == "acknowledged\n" * 40
    with AgentMemory(url) as memory:
        told = [message.text for message in memory.conversation("c").messages]
        assert told == [f"said {number} {n}" for number in range(40) for n in range(1 + number % 3)]
        assert len(memory.search("said 39", limit=100)) == len(told)
        assert memory.admin.verify().problems == ()
