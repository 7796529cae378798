"""The command `agentmem-mcp`: over stdin and stdout as a client starts it, and what it refuses."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess

import pytest
from langchain_agentmem_mcp.command import main

from langchain_agentmem import AgentMemory, sanitize_text

from .served import COMMAND, INITIALIZE, TOKENS, environment


def test_it_ends_well_when_its_client_goes_away_whatever_that_sent(sqlite_url, monkeypatch):
    sent = b"{nonsense\n\xff\n" + json.dumps(INITIALIZE).encode() + b"\n"
    answers = io.BytesIO()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(sent)))
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(answers))
    monkeypatch.setattr("signal.signal", lambda *_: None)  # they are pytest's
    assert main([sqlite_url]) == 0
    given = {each.get("id"): each for each in map(json.loads, answers.getvalue().splitlines())}
    assert given[1]["result"]["serverInfo"]["name"] == "agentmem"


def test_it_serves_what_it_was_told_to_and_ends_when_it_is_interrupted_while_it_waits(sqlite_url):
    odd = "A pear: \u00fc\u2028\x00."
    with AgentMemory(sqlite_url) as memory:
        memory.layers("user-42", ("team", "alice")).core.set("fruit", odd)
    options = [sqlite_url, "--namespace", "team/alice", "--branch", "user-42", "--read-only"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([COMMAND, *options], text=True, env=environment(), **pipes) as process:

        def ask(number, method, **params):
            told = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(told) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert answer["id"] == number
            return answer["result"]

        ask(1, "initialize", **INITIALIZE["params"])
        [entry] = ask(2, "tools/call", name="read_core_memory", arguments={})["structuredContent"]["entries"]
        assert (entry["key"], entry["value"]) == ("fruit", sanitize_text(odd))
        assert ask(3, "tools/call", name="remember", arguments={"text": "x"})["isError"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == ""


class TestRefusals:
    @pytest.fixture
    def told(self, capsys, tmp_path, monkeypatch):
        """Run the command, which is to end by itself; gives its exit code and what it says."""
        monkeypatch.chdir(tmp_path)
        for name in [name for name in os.environ if name.startswith("AGENTMEM_MCP")]:
            monkeypatch.delenv(name)

        def told(*options):
            code = main(options)
            said = capsys.readouterr()
            assert said.out == ""  # that is for the protocol
            return code, said.err

        return told

    @pytest.mark.parametrize(
        ("options", "what"),
        [
            (["x.db", "--http", "8765"], "HOST:PORT"),
            (["x.db", "--http", "localhost:99999"], "HOST:PORT"),
            (["x.db", "--http", "0.0.0.0:0"], "--tokens"),
            (["x.db", "--namespace", "a//b"], "team/alice"),
            (["x.db", "--branch", ""], "branch"),
            (["x.db", "--tokens", "nowhere.json", "--http", "127.0.0.1:0"], "nowhere.json"),
            (["mysql://x"], "postgresql://"),
        ],
    )
    def test_wrong_options_are_explained(self, told, options, what):
        code, said = told(*options)
        assert (code, what in said) == (2, True), said

    def test_tokens_are_for_http(self, told, monkeypatch):
        monkeypatch.setenv("AGENTMEM_MCP_TOKENS", TOKENS)
        code, said = told("x.db")
        assert (code, "--http" in said) == (2, True)

    def test_tokens_that_cannot_be_read_leave_nothing_open(self, told, monkeypatch):
        for text in ("", "{}", '{"short": "alice"}'):
            monkeypatch.setenv("AGENTMEM_MCP_TOKENS", text)
            assert told("x.db", "--http", "127.0.0.1:0")[0] == 2

    def test_a_port_that_is_taken_is_told(self, told):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            code, said = told("x.db", "--http", f"127.0.0.1:{taken.getsockname()[1]}")
        assert (code, "cannot be served" in said) == (2, True)

    def test_who_only_reads_makes_no_database(self, told, tmp_path):
        code, said = told("none.db", "--read-only", "--namespace", "/")
        assert (code, "There is no database 'none.db'" in said) == (3, True)
        assert not (tmp_path / "none.db").exists()

    def test_what_is_no_database_is_told(self, told, tmp_path):
        (tmp_path / "x.db").write_text("This is a letter. " * 100)
        code, said = told("x.db")
        assert (code, "database" in said) == (3, True)
