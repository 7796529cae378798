"""Messages, and their conversion between LangChain, a provider and the database.

A `Message` is the value that this package stores. It is converted in three directions, and back:

* to LangChain and back, `to_langchain` and `from_langchain`, losing nothing in either direction;
* to a provider, `Message.to_llm_dict` and `Message.to_api_format`, and back with ``Message(**d)`` or
  `Message.from_response_dict`;
* to the bytes that are stored, `encode_body` and `decode_body`: one message is stored once.

It may import `base` alone. Begin with `message.py`; `role_rounds.py` has posts, rounds and conversations between roles,
`history_repair.py` has the parts of a history and repairs it to what every provider accepts.

`Message` has the fields of MARSYS's messages and is the only form that is stored. `encode_body` writes JSON without the
id, so equal messages share one body. Keys keep their order, since prompts may depend on it; the log compares bodies
without it. Fields that only LangChain has are kept under `langchain`; fields that LangChain lacks travel in
`additional_kwargs["agentmem"]`. Both conversions are the identity, by property test. NULs and lone surrogates
survive: bodies are bytes, encoded with `surrogatepass`.
"""

from langchain_agentmem.base.lazy_imports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, {"MessageContent": "langchain_agentmem.messages.role_rounds"})
