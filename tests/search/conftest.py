"""Memories with embeddings, and what is said and found in them."""

import threading

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.search import vectors
from tests.word_embeddings import WordEmbeddings

SAME = {"feline": "cat", "hound": "dog", "automobile": "car"}
WORDS = WordEmbeddings(same=SAME)
DIMS = len(WORDS.embed_query("x"))


@pytest.fixture
def embeddings():
    """The embeddings of `opened`, if it is given no others."""
    return WORDS


@pytest.fixture
def opened(url, embeddings):
    """Opens a memory with embeddings."""
    memories = []

    def open_(embed=embeddings, where=url, **options):
        memories.append(AgentMemory(where, index={"dims": DIMS, "embed": embed}, **options))
        return memories[-1]

    yield open_
    for memory in memories:
        memory.close()


def said(memory, *texts, conversation="c", **options):
    chat = memory.conversation(conversation, **options)
    return [chat.add(role="user", content=text) for text in texts]


def found(memory, query, **options):
    return [each.text for each in memory.search(query, everything="namespace" not in options, **options)]


def waiting(memory):
    """How many documents have no vector yet."""
    return len(memory.database.engine.read(lambda tx: vectors.load_pending(tx, 1_000_000)))


def held_up(embeddings):
    """Make embeddings wait; return the events that say that they began, and let them go on."""
    going, go_on, real = threading.Event(), threading.Event(), embeddings.embed_documents

    def slow(texts):
        going.set()
        assert go_on.wait(120)
        return real(texts)

    embeddings.embed_documents = slow
    return going, go_on


def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    return thread
