"""Injection of memory into prompts, messages, states and requests, fenced as data.

It may import everything below the facade. Begin with `memory_injection.py`: `MemoryInjection` decides which memory fits
a question and how much of it, and is the Runnable and graph node. `memory_middleware.py` is the middleware of
LangChain's agents.
"""
