"""The story: two conversations in one process, and a third in another that was told nothing.

The second process is a new Python, started on the same database. All it knows of the first two conversations is
what it finds there.
"""

from __future__ import annotations

import os
import subprocess
import sys

from langchain_core.language_models import BaseChatModel

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.cli.console import count
from langchain_agentmem.cli.demo import Agent, ask, build_agent
from langchain_agentmem.cli.demo_model import QuotingModel, real_model
from langchain_agentmem.cli.screen import RECALLED, JsonScreen, Screen
from langchain_agentmem.errors import InvalidInput

PERSON = "Irena"
NAMESPACE = ("irena",)
SECOND_PROCESS = 2

TALKS = {
    "new-flat": (
        "I moved to Brno in March, because I got a job at the tram depot.",
        "My brother Marek keeps bees on the roof of our old house in Olomouc.",
        "One warning before you suggest any recipes: walnuts make me ill, even a crumb of them.",
    ),
    "birthday": (
        "Marek turns forty on the ninth of October, and I am planning a surprise.",
        "For years he has wanted a copper smoker for his bees.",
        "My train to Olomouc leaves at 7:12, so I will be there by nine.",
    ),
}
QUESTIONS = (
    "What has Marek wanted for his bees?",
    "When does my train to Olomouc leave?",
    "Is there anything that will make me ill?",
    "In which town did I get a job?",
    "What is my dentist called?",
)

NO_KEY = (
    "No model was named, so a small deterministic one answers. It knows nothing: it quotes what was recalled. "
    "Name a real one with --model provider:name."
)


def tell_story(screen: Screen, *, database: str, model: str | None, limit: int) -> int:
    """Live the first two conversations here, and the third in a new process.

    Args:
        screen: Where to print.
        database: The path or URL of the database, which the other process opens too.
        model: A real model's name, or None for the deterministic one.
        limit: How much is recalled at most for each message.

    Returns:
        The other process's exit code.

    Raises:
        InvalidInput: No other process can open this database.
    """
    if database == ":memory:":
        raise InvalidInput("The story needs a database that a second process can open: give a path or a URL.")
    if model is None:
        screen.line(NO_KEY)
    first_process(screen, database=database, model=model, limit=limit)
    screen.flush()
    command = [sys.executable, "-m", "langchain_agentmem", "demo", "--process", str(SECOND_PROCESS)]
    command += ["--database", database, "--limit", str(limit), *(("--model", model) if model else ())]
    command += ["--json"] if isinstance(screen, JsonScreen) else []
    return subprocess.run(command, check=False).returncode  # noqa: S603 - this very package, without a shell


def first_process(screen: Screen, *, database: str, model: str | None, limit: int) -> None:
    """Live the first two conversations; arguments as for `tell_story`."""
    chat_model = _model(model)
    with AgentMemory(database) as memory:
        screen.heading(f"Process {os.getpid()} talks with {PERSON}")
        agent = build_agent(memory, chat_model, limit=limit)
        for conversation, sayings in TALKS.items():
            if len(memory.conversation(conversation, NAMESPACE)):
                screen.line(
                    f"Conversation {safe_repr(conversation)} is in the database already; it is not lived again."
                )
                continue
            screen.line(f"Conversation {safe_repr(conversation)}")
            for said in sayings:
                _say(screen, agent, said, conversation, most=0)
    screen.line(f"Process {os.getpid()} has closed the database.")


def second_process(screen: Screen, *, database: str, model: str | None, limit: int) -> None:
    """Answer questions about the first two conversations; arguments as for `tell_story`."""
    chat_model = _model(model)
    with AgentMemory(database) as memory:
        screen.heading(f"Process {os.getpid()} is new, and opened the same database")
        agent = build_agent(memory, chat_model, limit=limit)
        conversation = memory.conversation(namespace=NAMESPACE).conversation_id
        for question in QUESTIONS:
            _say(screen, agent, question, conversation)
        stored = memory.stats()
    messages, conversations = stored["messages"], stored["conversations"]
    held = f"The database holds {count(messages, 'message')} in {count(conversations, 'conversation')}."
    screen.summary({"messages": messages, "conversations": conversations}, ("", held))


def _say(screen: Screen, agent: Agent, said: str, conversation: str, *, most: int = RECALLED) -> None:
    """Say something to the agent, and print what came of it."""
    answer, recalled = ask(agent, said, conversation_id=conversation, namespace=NAMESPACE, speaker=PERSON)
    screen.exchange(
        {
            "process": os.getpid(),
            "conversation": conversation,
            "speaker": PERSON,
            "said": said,
            "answer": answer,
            "recalled": recalled,
        },
        most=most,
    )


def _model(name: str | None) -> BaseChatModel:
    return QuotingModel() if name is None else real_model(name)
