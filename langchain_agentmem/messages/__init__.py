"""What is said: messages, between LangChain, a provider and the database.

A `Message` is the value that this package stores. It goes three ways, and comes back from each:

* to LangChain and back, `to_langchain` and `from_langchain`, losing nothing in either direction;
* to a provider, `Message.to_llm_dict` and `Message.to_api_format`, and back with ``Message(**d)`` or
  `Message.from_response_dict`;
* to the bytes that are stored, `encode_body` and `decode_body`: one message is stored once.

The values follow documents 001 and 003.
"""
