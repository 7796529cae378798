"""Language models: how they are asked, what texts cost, what models may call, and what they answered.

It may import `storage`, `messages`, `tracing` and `base`. Begin with `model_calls.py`: `ask` runs a model call, on the
event loop of the caller where there is one, and `refusal` tells a prompt that is too large from other errors.
`tokens.py` counts, `summarization.py` turns messages into a summary with a model or without one, `lenient_json.py`
reads the JSON that a model meant, and `tool_factory.py` makes LangChain tools of operations.
"""
