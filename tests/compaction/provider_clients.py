"""LangChain's real clients of four APIs, each pointed at a loopback server."""

from langchain_anthropic import ChatAnthropic
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI


def chat_client(server):
    return ChatOpenAI(base_url=server.url, api_key="x", model="gpt-test", max_retries=0)


def responses_client(server):
    return ChatOpenAI(
        base_url=server.url, api_key="x", model="gpt-test", max_retries=0, use_responses_api=True, store=False
    )


def anthropic_client(server):
    return ChatAnthropic(base_url=server.origin, api_key="x", model="claude-test", max_retries=0, max_tokens=1_000)


def gemini_client(server):
    return ChatGoogleGenerativeAI(base_url=server.origin, api_key="x", model="gemini-test", max_retries=1)


CLIENTS = [chat_client, responses_client, anthropic_client, gemini_client]
