"""Injection: what is remembered goes into prompts, messages, states and requests, fenced as data.

It may import everything below the facade. Begin with `memory_injection.py`: `MemoryInjection` decides what fits a
question and how much of it, and is the Runnable and graph node. `memory_middleware.py` is the middleware of LangChain's
agents.
"""
