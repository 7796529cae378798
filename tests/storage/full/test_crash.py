"""After `kill -9` at any point the database opens, verifies, and holds every acknowledged write."""

import random
import signal
import subprocess
import sys
import textwrap

import pytest

from langchain_agentmem import AgentMemory

pytestmark = pytest.mark.bare

# What is acknowledged is said; `tests/faults` kills every kind of writer before each of its steps.
WRITER = """
    import random, sys
    from langchain_core.messages import HumanMessage
    from langchain_agentmem import AgentMemory

    luck = random.Random(sys.argv[2])
    chat = AgentMemory(sys.argv[1]).conversation("c")
    for count in range(10_000):
        names = [f"{sys.argv[2]}-{count}-{n}" for n in range(luck.choice((1, 1, 1, 30)))]
        chat.add_messages([HumanMessage(f"said {name}", id=name) for name in names])
        print("added", *names, flush=True)
        if luck.random() < 0.3:
            print("removing", names[0], flush=True)
            chat.remove_by_id(names[0])
            print("removed", names[0], flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "kills"), [("sqlite", 6), ("postgres", 3)])
def test_every_acknowledged_write_is_there_and_the_database_verifies(kind, kills, new_database):
    url, moments = new_database(kind), random.Random(2)
    told = {"added": set(), "removing": set(), "removed": set()}
    for number in range(kills):
        command = [sys.executable, "-c", textwrap.dedent(WRITER), url, str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            last = moments.randrange(1, 40)
            for count, line in enumerate(writer.stdout, 1):
                if count == last:
                    writer.kill()
                verb, *names = line.split()
                told[verb].update(names)
        assert writer.returncode == -signal.SIGKILL
        with AgentMemory(url) as memory:
            said = {message.id: message.text for message in memory.conversation("c").messages}
            assert said.keys() >= told["added"] - told["removing"]
            assert not said.keys() & told["removed"]
            assert all(text == f"said {name}" for name, text in said.items())
            assert memory.admin.verify().problems == ()
            found = memory.search(f"{number} 0 0", conversation_id="c", limit=10_000)
            assert {each.id for each in found} & told["added"]


def test_what_a_killed_writer_left_open_is_not_there(tmp_path):
    path = tmp_path / "a.db"
    with AgentMemory(path) as memory:
        memory.conversation("c").add(role="user", content="kept")
    script = """
        import os, signal, sys
        from langchain_agentmem import AgentMemory
        from tests.storage.sessions import appending, entry

        def half():
            yield from appending(entry("half"))()
            os.kill(os.getpid(), signal.SIGKILL)

        AgentMemory(sys.argv[1]).database.engine.write(half)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), path], check=False)
    assert done.returncode == -signal.SIGKILL
    with AgentMemory(path) as memory:
        assert memory.conversation("c").retrieve_all() == [{"role": "user", "content": "kept"}]
        assert memory.admin.verify().problems == ()
