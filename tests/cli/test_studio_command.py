"""`agentmem studio` serves a database."""

from __future__ import annotations

import http.client
import re
import signal
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from langchain_agentmem import AgentMemory, cli
from tests.forking import ENVIRONMENT

pytestmark = pytest.mark.sqlite_suffices


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "agent.db"
    with AgentMemory(path) as memory:
        memory.conversation("monday", ("users", "ada")).add_user_message("The quinces are ripe.")
        memory.conversation("monday", ("users", "bob")).add_user_message("The medlars are not.")
    return str(path)


@pytest.fixture
def agentmem(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["agentmem", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        printed = capsys.readouterr()
        return left.value.code, printed.out, printed.err

    return run


class TestStudio:
    @pytest.mark.slow
    def test_it_serves_read_only_and_ends_in_good_order(self, database):
        command = [sys.executable, "-m", "langchain_agentmem", "studio", database, "--port", "0", "--read-only"]
        with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                told = process.stdout.readline().decode()
                where = urlsplit(re.search(r"http://\S+", told)[0])
                connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
                connection.request("GET", f"/?{where.query}")
                opened = connection.getresponse()
                opened.read()
                cookie = opened.getheader("Set-Cookie").partition(";")[0]
                connection.request("GET", "/", headers={"Cookie": cookie})
                page = connection.getresponse().read().decode()
                connection.request("GET", "/")
                stranger = connection.getresponse()
                stranger.read()
                connection.close()
            finally:
                process.send_signal(signal.SIGINT)
            _, failed = process.communicate()
        assert (opened.status, opened.getheader("Location"), stranger.status) == (303, "/", 403)
        assert "read-only" in page
        assert (process.returncode, failed) == (0, b"")

    def test_a_mistyped_path_does_not_become_a_database(self, agentmem, tmp_path):
        code, _, failed = agentmem("studio", str(tmp_path / "typo.db"))
        assert (code, "no database" in failed, list(tmp_path.iterdir())) == (2, True, [])

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "0", "::ffff:0.0.0.0"])
    def test_it_is_open_to_no_network_by_accident(self, agentmem, database, host):
        code, _, failed = agentmem("studio", database, "--host", host)
        assert (code, "every network" in failed) == (2, True)
