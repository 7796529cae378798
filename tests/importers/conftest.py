import pytest

from .sources import SOURCES


@pytest.fixture(params=SOURCES)
def source(request, tmp_path):
    """The kind of a source, and the source: one of each."""
    kind, make = SOURCES[request.param]
    folder = tmp_path / "their"
    folder.mkdir()
    return kind, make(folder)
