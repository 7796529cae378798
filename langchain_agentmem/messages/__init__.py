"""Messages, and their conversion between LangChain, a provider and the database.

A `Message` is the value that this package stores. It is converted in three directions, and back:

* to LangChain with `to_langchain`, and back with `from_langchain`, without loss;
* to a provider with `Message.to_llm_dict` or `Message.to_api_format`, and back with ``Message(**d)`` or
  `Message.from_response_dict`;
* to the stored bytes with `encode_body`, and back with `decode_body`.

The folder imports only `base` and `errors` of this package. Begin with `message.py`. `role_rounds.py` has posts, rounds
and conversations between roles. `history_repair.py` repairs a list of messages, so that every provider accepts it.

`encode_body` writes JSON without the id, so equal messages share one body. Keys keep their order, since prompts may
depend on it. `Message.langchain` has the fields that only LangChain has. `additional_kwargs["agentmem"]` of a LangChain
message has the fields that LangChain lacks. So a conversion and its inverse return an equal message. NULs and lone
surrogates survive, since bodies are bytes, encoded with `surrogatepass`.
"""

from langchain_agentmem.base.lazy_imports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, {"MessageContent": "langchain_agentmem.messages.role_rounds"})
