"""Language models: how they are asked, what texts cost, what models may call, and what they answered.

It may import `storage`, `messages`, `tracing` and `base`. Begin with `model_calls.py`: work that asks models and
databases is a generator, written once, and `both` makes its waiting and its awaited form. `tokens.py` counts,
`summarization.py` turns messages into a summary with a model or without one, `overflow.py` tells a prompt that is too
large from other errors, `lenient_json.py` reads the JSON that a model meant, and `tool_factory.py` makes LangChain
tools of operations.
"""
