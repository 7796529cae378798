"""Images that messages and posts reference by file path."""

import base64

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory, Attachment, AttachmentType
from langchain_agentmem.errors import MessageError
from langchain_agentmem.messages.message import Message
from langchain_agentmem.messages.provider_content import MAX_IMAGE_BYTES
from tests.support.histories import PIXEL

pytestmark = pytest.mark.sqlite_suffices

PART = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
PLACEHOLDER = {"type": "text", "text": "[The image 'cat.png' cannot be shown.]"}


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "cat.png"
    path.write_bytes(base64.b64decode(PIXEL))
    return path


@pytest.fixture
def memory_with_warnings(url, caplog):
    """A memory, and a function that returns the logged warnings."""
    with AgentMemory(url) as memory:
        yield memory, lambda: caplog.messages


def make_unreadable(picture, how):
    picture.unlink()
    if how == "a folder":
        picture.mkdir()
    elif how == "too large":
        with picture.open("wb") as file:
            file.truncate(MAX_IMAGE_BYTES + 1)


READINGS = {
    "messages": ("conversation", "messages"),
    "raw messages": ("managed_conversation", "raw_messages"),
    "context": ("managed_conversation", "messages"),
    "everything": ("conversation", "retrieve_all"),
    "the last": ("conversation", "retrieve_recent", 2),
    "one": ("conversation", "retrieve_by_id", "h"),
    "a role's": ("conversation", "retrieve_by_role", "user"),
    "the context's": ("managed_conversation", "get_messages"),
}


async def read(memory, do, kind):
    """Read the content of the message with the image."""
    part, name, *arguments = READINGS[kind]
    found = await do(getattr(memory, part)("c"), name, *arguments)
    first = found[0] if isinstance(found, list) else found
    return first["content"] if isinstance(first, dict) else first.content


def say(memory, picture):
    chat = memory.conversation("c")
    chat.add({"role": "user", "content": "See", "images": [str(picture), "https://x/y.png"], "message_id": "h"})
    chat.add(role="assistant", content="A cat.")
    return chat


REMOTE = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
TEXT = {"type": "text", "text": "See"}


class TestMessages:
    async def test_image_file_is_inlined_in_content(self, memory_with_warnings, picture, do):
        memory, warnings = memory_with_warnings
        say(memory, picture)
        for kind in READINGS:
            assert await read(memory, do, kind) == [TEXT, PART, REMOTE], kind
        assert warnings() == []

    @pytest.mark.parametrize("how", ["gone", "a folder", "too large"])
    async def test_unreadable_image_becomes_placeholder_with_warning(self, memory_with_warnings, picture, do, how):
        memory, warnings = memory_with_warnings
        say(memory, picture)
        make_unreadable(picture, how)
        with pytest.raises(MessageError):
            Message(role="user", images=[str(picture)]).to_llm_dict()
        for kind in READINGS:
            assert await read(memory, do, kind) == [TEXT, PLACEHOLDER, REMOTE], kind
        [warning] = warnings()
        assert f"{str(picture)!r} cannot be read" in warning

    @pytest.mark.parametrize("there", [True, False])
    def test_read_messages_can_be_added_again(self, memory_with_warnings, picture, tmp_path, there):
        memory, _ = memory_with_warnings
        chat = say(memory, picture)
        if not there:
            picture.unlink()
        said, others = chat.messages, [memory.conversation("other"), memory.conversation("loaded")]
        chat.add_messages(said)
        assert len(chat.messages) == 2
        others[0].add_messages(said)
        chat.save_to_file(tmp_path / "chat.json")
        others[1].load_from_file(tmp_path / "chat.json")
        for other in others:
            assert other.history_of("h")[0].message == chat.history_of("h")[0].message
        assert chat.history_of("h")[0].message.images == [str(picture), "https://x/y.png"]

    def test_unusual_image_paths_do_not_break_reading(self, memory_with_warnings):
        memory, warnings = memory_with_warnings
        for path in ("a\0b.png", "\ud800.png", "~nobody-of-this-name/x.png", "x" * 5_000, "file://[x", ""):
            chat = memory.conversation(path.encode("utf-8", "replace").hex()[:99] or "empty")
            chat.add(role="user", content="See", images=[path])
            assert "cannot be shown" in chat.messages[0].content[1]["text"]
            assert "cannot be shown" in chat.retrieve_all()[0]["content"][1]["text"]
        assert all("cannot be read" in each for each in warnings())
        assert len(warnings()) == 6


class TestPosts:
    @pytest.fixture
    def session(self, memory_with_warnings, picture):
        memory, _ = memory_with_warnings
        session = memory.session("s")
        round_ = session.create_round("What is it?")
        image = Attachment.create(AttachmentType.image_url, str(picture))
        session.add_post(round_.id, send_from="User", send_to="Planner", message="See", attachments=[image])
        session.add_post(round_.id, send_from="Planner", send_to="Coder", message="Look", attachments=[image])
        return session

    @pytest.mark.usefixtures("session")
    def test_user_post_images_are_inlined(self, memory_with_warnings):
        memory, warnings = memory_with_warnings
        [seen, other] = memory.conversation("s").messages
        assert seen.content == [TEXT, PART]
        assert other.content == "Look", "no provider takes an image from an assistant"
        assert memory.conversation("s").retrieve_all()[0]["content"] == [TEXT, PART]
        assert memory.managed_conversation("s").messages[0].content == [TEXT, PART]
        assert warnings() == []


def test_fact_messages_inline_their_images(memory_with_warnings, picture):
    memory, warnings = memory_with_warnings
    facts = memory.facts("f")
    facts.add(role="user", content="See", images=[str(picture)])
    assert facts.retrieve_all()[0]["content"] == [TEXT, PART]
    picture.unlink()
    assert facts.retrieve_all()[0]["content"] == [TEXT, PLACEHOLDER]
    [warning] = warnings()
    assert f"{str(picture)!r} cannot be read" in warning


def test_file_paths_in_content_blocks_are_not_read(memory_with_warnings, picture):
    """Only `images` are files: content may come from anybody."""
    memory, _ = memory_with_warnings
    block = {"type": "image_url", "image_url": {"url": str(picture)}}
    memory.conversation("c").add_messages([HumanMessage([block])])
    assert memory.conversation("c").messages[0].content == [block]
    assert memory.managed_conversation("c").messages[0].content == [block]
