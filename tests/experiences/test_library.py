"""`ExperienceLibrary`: loading, validating and adding experiences."""

from itertools import product

import pytest

from langchain_agentmem import AgentMemory, Experience, ExperienceLibrary
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.experience import section

from .conftest import CHARTS, FILES, LOAD, PLOT, REFUNDS, WEATHER

pytestmark = pytest.mark.sqlite_suffices


class TestLibrary:
    async def test_load_returns_the_folder_contents(self, library):
        assert library.load() == await library.aload() == [CHARTS, FILES, REFUNDS]
        assert library.validate() == await library.avalidate()
        assert library.validate().ok

    def test_library_opens_its_own_database(self, filled, url):
        library = ExperienceLibrary(url, str(filled.path))
        assert library.load() == [CHARTS, FILES, REFUNDS]
        assert library.directory == filled.path
        assert str(filled.path) in repr(library)

    def test_validate_separates_errors_from_warnings(self, library, filled):
        filled.put("handcrafted_exp_typo.yaml", REFUNDS.to_yaml().replace("refunds", "typo") + "whom: all\n")
        check = library.validate()
        assert check.ok
        assert [problem.path for problem in check.problems] == ["handcrafted_exp_typo.yaml"]
        assert "typo" in {each.exp_id for each in check.experiences}
        filled.put("handcrafted_exp_bad.yaml", "{")
        check = library.validate()
        assert not check.ok
        assert [problem.path for problem in check.problems] == ["handcrafted_exp_bad.yaml", "handcrafted_exp_typo.yaml"]

    async def test_unusable_file_is_logged_once(self, library, filled, caplog):
        bad = "exp_id: bad\nwhen: Use when asked to: refund\nwhat: Open a ticket.\n"
        filled.put("bad.yaml", bad)
        filled.put("mine/worse.yml", "{")
        filled.put("handcrafted_exp_typo.yaml", REFUNDS.to_yaml().replace("refunds", "typo") + "whom: all\n")
        library.validate()
        assert caplog.messages == []  # it returns what is wrong
        for _ in range(3):
            library.load()
            await library.aload()
            library.selector().select(LOAD)
            ExperienceLibrary(library.database, filled.path).load()
        [told] = caplog.messages
        assert str(filled.path) in told
        assert "bad.yaml: It is not valid YAML" in told
        library.load("mine")
        filled.put("bad.yaml", bad.replace("exp_id: bad\n", ""))
        library.load()
        assert ["worse.yml" in told for told in caplog.messages] == [False, True, False]

    def test_invalid_path_is_rejected(self, library, filled):
        (filled.path / "mine").mkdir()
        (filled.path / "link").symlink_to(filled.path.parent, target_is_directory=True)
        (filled.path / "file").write_text("")
        paths = ("..", "mine/../..", "/", "/etc", "nowhere", "", "a\0b", "link", "x" * 5_000, 3, "file")
        for path, look in product(paths, (library.load, library.validate)):
            with pytest.raises(InvalidInput):
                look(path)

    def test_wrong_arguments_are_refused(self, in_memory, tmp_path):
        for directory in (tmp_path / "nowhere", "", 3, None, "x" * 5_000):
            with pytest.raises(InvalidInput):
                in_memory.experiences(directory)
        with pytest.raises(InvalidInput):
            in_memory.experiences(tmp_path, subfolders=1)

    def test_an_experience_can_be_added(self, library):
        new = Experience("a: b/../c ä", ["Planner"], "Use when:\n- it rains", "{Take} a 'coat'\t\n")
        path = library.add(new)
        assert path.parent == library.directory
        assert new in library.load()
        assert library.validate().problems == ()

    async def test_existing_experience_is_not_overwritten(self, library, filled):
        before = {path: path.read_bytes() for path in filled.path.iterdir()}
        with pytest.raises(InvalidInput, match=r"'files'.*handcrafted_exp_files\.yaml"):
            library.add(FILES)
        with pytest.raises(InvalidInput):
            await library.aadd({"exp_id": "a"})
        assert {path: path.read_bytes() for path in filled.path.iterdir()} == before
        (filled.path / "handcrafted_exp_other.yaml").write_text("{")
        path = library.add(Experience("other", (), "b", "c"))
        assert path.name == "handcrafted_exp_other-2.yaml"
        assert (filled.path / "handcrafted_exp_other.yaml").read_text() == "{"

    def test_ids_never_name_files_elsewhere(self, library, filled):
        for exp_id in ("../../x", ".", "..", "/", "con", "ä" * 200, "\u202e", "a\\b", "*", "~"):
            path = library.add(Experience(exp_id, (), "b", "c"))
            assert path.resolve().parent == path.parent.resolve() == filled.path.resolve()
            assert exp_id in {each.exp_id for each in library.load()}


def test_closed_database_does_not_prevent_selection(filled):
    memory = AgentMemory(":memory:")
    selector = memory.experiences(filled.path).selector()
    memory.close()
    assert section([CHARTS]) in selector.invoke(PLOT)
    assert selector.invoke(WEATHER) == WEATHER
