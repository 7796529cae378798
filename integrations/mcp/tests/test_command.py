"""The command `agentmem-mcp`: standard input and output, and refusals."""

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


def test_server_exits_cleanly_after_stdin_closes(sqlite_url, monkeypatch):
    sent = b"{nonsense\n\xff\n" + json.dumps(INITIALIZE).encode() + b"\n"
    answers = io.BytesIO()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(sent)))
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(answers))
    monkeypatch.setattr("signal.signal", lambda *_: None)  # they are pytest's
    assert main([sqlite_url]) == 0
    given = {each.get("id"): each for each in map(json.loads, answers.getvalue().splitlines())}
    assert given[1]["result"]["serverInfo"]["name"] == "agentmem"


def test_stdio_server_applies_options_and_stops_on_sigint(sqlite_url):
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
    def run_command(self, capsys, tmp_path, monkeypatch):
        """Run the command, which is to end by itself; gives its exit code and what it says."""
        monkeypatch.chdir(tmp_path)
        for name in [name for name in os.environ if name.startswith("AGENTMEM_MCP")]:
            monkeypatch.delenv(name)

        def run_command(*options):
            code = main(options)
            said = capsys.readouterr()
            assert said.out == ""  # that is for the protocol
            return code, said.err

        return run_command

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
    def test_invalid_options_are_explained(self, run_command, options, what):
        code, said = run_command(*options)
        assert (code, what in said) == (2, True), said

    def test_tokens_require_http(self, run_command, monkeypatch):
        monkeypatch.setenv("AGENTMEM_MCP_TOKENS", TOKENS)
        code, said = run_command("x.db")
        assert (code, "--http" in said) == (2, True)

    def test_invalid_tokens_are_refused(self, run_command, monkeypatch):
        for text in ("", "{}", '{"short": "alice"}'):
            monkeypatch.setenv("AGENTMEM_MCP_TOKENS", text)
            assert run_command("x.db", "--http", "127.0.0.1:0")[0] == 2

    def test_occupied_port_is_reported(self, run_command):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            code, said = run_command("x.db", "--http", f"127.0.0.1:{taken.getsockname()[1]}")
        assert (code, "cannot be served" in said) == (2, True)

    def test_read_only_server_creates_no_database(self, run_command, tmp_path):
        code, said = run_command("none.db", "--read-only", "--namespace", "/")
        assert (code, "Database 'none.db' does not exist" in said) == (3, True)
        assert not (tmp_path / "none.db").exists()

    def test_invalid_database_file_is_reported(self, run_command, tmp_path):
        (tmp_path / "x.db").write_text("This is a letter. " * 100)
        code, said = run_command("x.db")
        assert (code, "database" in said) == (3, True)
