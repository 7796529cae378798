"""Add layered memory, a retriever, experiences and a chat history to chains.

Run it with `python examples/chains.py`. It needs no extra and no key, because a function replaces the model and prints
its prompt. Use any LangChain model instead.
"""

import tempfile
import warnings
from pathlib import Path

from langchain_core.messages import AIMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory

from langchain_agentmem import AgentMemory, Experience


def show(prompt: PromptValue) -> AIMessage:
    for message in prompt.to_messages():
        print("\n".join(f"    {message.type:<7} {line}" for line in message.text.splitlines()))
    return AIMessage("At eight.")


def main(folder: Path) -> None:
    model = RunnableLambda(show)
    with AgentMemory(folder / "agent.db") as memory:
        ada = memory.layers("ada")
        ada.core.set("name", "Ada")
        ada.archival.write("Ada eats no nuts.")
        memory.conversation("monday").add_user_message("The harbour kitchen closes at ten.")

        print("--- memory.inject() | model: the core memory of Ada, and the records that match the question")
        prompt = ChatPromptTemplate.from_messages([("system", "You book tables."), ("user", "{question}")])
        chain = prompt | memory.inject("ada") | model
        chain.invoke({"question": "Which dishes with nuts are there?"})

        print("--- a retriever: messages of all conversations")
        prompt = ChatPromptTemplate.from_template("You know: {known}\n{question}")
        known = memory.retriever(limit=1) | (lambda documents: documents[0].page_content)
        answering = {"known": known, "question": RunnablePassthrough()} | prompt | model
        answering.invoke("When does the kitchen close?")

        print("--- experiences: instructions whose condition applies")
        library = memory.experiences(folder)
        library.add(Experience("ask", when="Use when a table is booked.", what="Ask for how many people."))
        prompt = ChatPromptTemplate.from_messages([("system", "You book.\n{experiences}"), ("user", "{question}")])
        (library.selector() | prompt | model).invoke({"question": "Please book a table for Friday."})

        print("--- RunnableWithMessageHistory: the earlier messages of this conversation")
        warnings.filterwarnings("ignore", "RunnableWithMessageHistory")  # LangChain recommends graphs instead
        prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("user", "{question}")])
        chat = RunnableWithMessageHistory(
            prompt | model, memory.conversation, input_messages_key="question", history_messages_key="history"
        )
        for text in ("When shall we eat?", "Is that not late?"):
            chat.invoke({"question": text}, {"configurable": {"session_id": "tuesday"}})
        print(len(memory.conversation("tuesday").messages), "messages are kept")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
