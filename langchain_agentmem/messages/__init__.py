"""What is said: messages, between LangChain, a provider and the database.

A `Message` is the value that this package stores. It goes three ways, and comes back from each:

* to LangChain and back, `to_langchain` and `from_langchain`, losing nothing in either direction;
* to a provider, `Message.to_llm_dict` and `Message.to_api_format`, and back with ``Message(**d)`` or
  `Message.from_response_dict`;
* to the bytes that are stored, `encode_body` and `decode_body`: one message is stored once.

The values follow documents 001 and 003.
"""

from langchain_agentmem.messages.langchain_messages import from_langchain, has_images, to_langchain, with_images
from langchain_agentmem.messages.message import Message, body_text, decode_body, encode_body, message_time, same_body
from langchain_agentmem.messages.provider_content import ImageFiles, PartOf, named_part
from langchain_agentmem.messages.tool_calls import AgentCallMsg, MessageContent, ToolCallMsg

__all__ = [
    "AgentCallMsg",
    "ImageFiles",
    "Message",
    "MessageContent",
    "PartOf",
    "ToolCallMsg",
    "body_text",
    "decode_body",
    "encode_body",
    "from_langchain",
    "has_images",
    "message_time",
    "named_part",
    "same_body",
    "to_langchain",
    "with_images",
]
