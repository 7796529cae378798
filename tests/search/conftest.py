"""Fixtures and helpers for searching memories with embeddings."""

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
    """The default embeddings of `opened`."""
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


def add_texts(memory, *texts, conversation="c", **options):
    chat = memory.conversation(conversation, **options)
    return [chat.add(role="user", content=text) for text in texts]


def search_texts(memory, query, **options):
    return [each.text for each in memory.search(query, everything="namespace" not in options, **options)]


def count_pending(memory):
    """Count the documents without a vector."""
    return len(memory.database.engine.read(lambda tx: vectors.load_pending(tx, 1_000_000)))


def block_embeddings(embeddings):
    """Make embeddings wait; return the events that say that they began, and let them go on."""
    going, go_on, real = threading.Event(), threading.Event(), embeddings.embed_documents

    def slow(texts):
        going.set()
        assert go_on.wait(120)
        return real(texts)

    embeddings.embed_documents = slow
    return going, go_on


def start_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    return thread
