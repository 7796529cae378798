"""After `kill -9` at any point the database opens, verifies, and holds every acknowledged write."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from langchain_agentmem import AgentMemory

pytestmark = pytest.mark.bare


CONVERSATIONS = ("c0", "c1", "c2")


SQLITE_KILLS = 55


POSTGRES_KILLS = 10


# Forks one writer for each line it is sent, so that a writer costs no start of Python; the writers are what is killed.
FORKS = """
    import os, random, sys
    from langchain_core.messages import HumanMessage
    from langchain_agentmem import AgentMemory

    def write(url, number):
        luck = random.Random(number)
        out = os.fdopen(os.dup(1), "w", buffering=1)
        memory = AgentMemory(url)
        chat = memory.conversation(f"c{number % 3}")
        mine, count = [], 0
        print("open", file=out)
        while True:
            count += 1
            name, chance = f"w{number}-{count}", luck.random()
            if chance < 0.55 or len(mine) < 5:
                chat.add({"role": "user", "content": f"said {name}", "message_id": name})
                mine.append(name)
                print("added", name, file=out)
            elif chance < 0.75:
                names = [f"{name}-{i}" for i in range(luck.randrange(2, 40))]
                chat.add_messages([HumanMessage(f"said {n}", id=n) for n in names])
                mine += names
                print("added", *names, file=out)
            elif chance < 0.9:
                name = luck.choice(mine)
                print("updating", name, file=out)
                chat.update(name, content=f"said {name} again")
                print("updated", name, file=out)
            else:
                name = mine.pop(luck.randrange(len(mine)))
                print("removing", name, file=out)
                chat.remove_by_id(name)
                print("removed", name, file=out)

    for line in sys.stdin:
        url, number = line.split()
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.read(told, 1)  # nothing is said before the line that names this child
                write(url, int(number))
            finally:
                os._exit(1)
        print("child", child, flush=True)
        os.write(tell, b"!")
        os.close(told)
        os.close(tell)
        _, status = os.waitpid(child, 0)
        print("ended", os.waitstatus_to_exitcode(status), flush=True)
"""


class Truth:
    """What the writers acknowledged, and what they had only begun."""

    def __init__(self):
        self.where, self.text, self.unsure = {}, {}, set()
        self.acknowledged = 0

    def hear(self, number, line):
        verb, *names = line.split()
        if verb == "added":
            for name in names:
                self.where[name], self.text[name] = f"c{number % 3}", {f"said {name}"}
        elif verb == "updating":
            self.text[names[0]] = self.text[names[0]] | {f"said {names[0]} again"}
        elif verb == "updated":
            self.text[names[0]] = {f"said {names[0]} again"}
        elif verb == "removing":
            self.unsure.add(names[0])
        elif verb == "removed":
            self.where.pop(names[0])
            self.unsure.discard(names[0])
        if verb in {"added", "updated", "removed"}:
            self.acknowledged += 1

    def check(self, memory, conversations=CONVERSATIONS):
        said = {n: {m.id: m.content for m in memory.conversation(n).messages} for n in conversations}
        for name, where in self.where.items():
            if where not in said:
                continue
            if name in said[where]:
                assert said[where][name] in self.text[name]
            else:
                assert name in self.unsure, f"{name} was acknowledged and is gone"
        return said


def kill_while_writing(url, kills, pauses):
    truth = Truth()
    forker = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(FORKS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        for number in range(kills):
            forker.stdin.write(f"{url} {number}\n")
            forker.stdin.flush()
            verb, pid = forker.stdout.readline().split()
            assert verb == "child"
            if pauses.random() < 0.9:
                assert forker.stdout.readline() == "open\n"
                for _ in range(pauses.randrange(8)):  # each write says that it begins, or that it ended, or both
                    truth.hear(number, forker.stdout.readline())
            time.sleep(pauses.random() * 0.02)
            os.kill(int(pid), signal.SIGKILL)
            while not (line := forker.stdout.readline()).startswith("ended"):
                # A line cut by the kill acknowledges nothing: the next one begins behind it.
                head, cut, rest = line.partition("ended ")
                if cut:
                    line = cut + rest
                    break
                if head != "open\n":
                    truth.hear(number, head)
            assert line == f"ended -{signal.SIGKILL.value}\n"
            with AgentMemory(url) as memory:
                truth.check(memory, CONVERSATIONS if number % 10 == 0 else [f"c{number % 3}"])
                if number % 10 == 0:
                    assert memory.admin.verify().problems == ()
    finally:
        os.killpg(forker.pid, signal.SIGKILL)  # with whatever writer is left
        forker.communicate()
    return truth


class TestKillingWriters:
    @pytest.mark.slow
    @pytest.mark.parametrize(("kind", "kills"), [("sqlite", SQLITE_KILLS), ("postgres", POSTGRES_KILLS)])
    def test_every_acknowledged_write_is_there_and_the_database_verifies(self, kind, kills, new_database):
        url = new_database(kind)

        truth = kill_while_writing(url, kills, random.Random(2))

        assert truth.acknowledged > kills  # they did get to write
        with AgentMemory(url) as memory:
            said = truth.check(memory)
            assert memory.admin.verify().problems == ()
            for name, where in random.Random(3).sample(sorted(truth.where.items()), min(20, len(truth.where))):
                if name not in truth.unsure:
                    found = memory.search(name.replace("-", " "), conversation_id=where, limit=10_000)
                    assert name in {each.id for each in found}
            memory.conversation("c0").add(role="user", content="life goes on")
            assert len(memory.conversation("c0")) == len(said["c0"]) + 1

    def test_what_a_killed_writer_left_open_is_not_there(self, tmp_path):
        path = tmp_path / "a.db"
        with AgentMemory(path) as memory:
            memory.conversation("c").add(role="user", content="kept")
        script = """
            import os, signal, sys
            from langchain_agentmem import AgentMemory
            from langchain_agentmem.conversations import message_log as log

            def half():
                entry = log.LogEntry("half", b'{"content":"x","role":"user"}', "x", created_at=1, role="user")
                yield from log.append(log.Address("", "c"), [entry], now=1, tail=64)
                os.kill(os.getpid(), signal.SIGKILL)

            memory = AgentMemory(sys.argv[1])
            memory.database.engine.write(half)
        """
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), path], check=False)
        assert done.returncode == -signal.SIGKILL

        with AgentMemory(path) as memory:
            assert memory.conversation("c").retrieve_all() == [{"role": "user", "content": "kept"}]
            assert memory.admin.verify().problems == ()
