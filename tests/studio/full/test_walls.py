"""Studio on somebody's part of a memory shows nothing of anybody else's, whatever an address names."""

from __future__ import annotations

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.studio import sample

PAGES = """
/ /threads /threads?q=hives /threads?namespace=marek /thread?id=HIVES /thread?id=HIVES&namespace=marek
/thread?id=HIVES&namespace=marek&show=memory /conversation?id=HIVES&namespace=marek /memory?namespace=marek
/search?q=hives /search?q=hives&namespace=marek /facts?namespace=marek /facts /experiences?namespace=marek /audit
/audit?namespace=marek /audit/chain?namespace=marek&verify=1 /corrections /corrections?namespace=marek
/correct?kind=core&key=hives&namespace=marek /erase?namespace=marek
""".replace("HIVES", sample.HIVES).split()


@pytest.fixture
def lived(url, tmp_path):
    with AgentMemory(url) as memory:
        sample.live(memory, tmp_path)
        yield memory


def test_no_page_shows_what_is_beyond_it(lived, browse):
    whole, part = browse(lived), browse(lived.within(sample.IRENA))
    assert "four hives" in whole.text_of("/search?q=hives")
    for page in PAGES:
        text = part.get(page).text
        for told in ("four hives", "Four hives", ">hives<", 'href="/threads?namespace=marek'):
            assert told not in text, page


def test_nothing_beyond_it_is_erased_or_corrected(lived, browse):
    part = browse(lived.within(sample.IRENA))
    part.submit("/erase?namespace=marek", "/corrections", name="marek")
    part.submit("/erase/rehearse?namespace=marek", "/corrections")
    part.submit("/correct?kind=core&key=hives&namespace=marek", "/corrections", value="0", do="save", version="")
    assert len(lived.conversation(sample.HIVES, sample.MAREK)) == 2
    assert lived.layers("main", sample.MAREK).core.get("hives") == {"hives": "4"}
