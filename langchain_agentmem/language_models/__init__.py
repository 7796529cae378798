"""Language models: calls, token counts, summaries, tools, and the reading of answers.

The folder may import `storage`, `messages`, `tracing` and `base`. Begin with `model_calls.py`: `ask_model` calls a
model, on the event loop of the caller if there is one, and `refusal_kind` recognizes errors for too large prompts.
`tokens.py` counts tokens, `summarization.py` summarizes messages with a model or without one, `lenient_json.py` reads
the JSON in a model's answer, and `tool_factory.py` creates LangChain tools from operations.
"""
