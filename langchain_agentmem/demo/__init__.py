"""The main job: a LangGraph agent that remembers across conversations and processes.

`python -m langchain_agentmem demo` tells a story of two processes (`story.py`); with `--transcript` the agent
lives the sessions of a transcript and then answers questions about them (`exam.py`). Both use one agent
(`agent.py`), which talks to a real model or to a small deterministic one (`model.py`). What it recalls reaches
the model fenced as data (`fence.py`). Everything is printed through `screen.py`.
"""
