r"""`ExperienceLibrary`: a folder of handcrafted experiences.

    library = memory.experiences("experience")
    chain = library.selector(role="Planner") | prompt | model

Every selection sees the folder as it is then.

An experience says *when* it applies and *what* to do then: a YAML file that people write, review and edit.

    from pathlib import Path

    from langchain_core.prompts import ChatPromptTemplate

    from langchain_agentmem import AgentMemory

    Path("experience").mkdir(exist_ok=True)
    Path("experience/handcrafted_exp_files.yaml").write_text('''
    exp_id: file-validation
    who: [CodeInterpreter]
    when: Use when files are read or written, or a FileNotFoundError occurred.
    what: Check that the file exists before you open it.
    ''')

    with AgentMemory("agent.db") as memory:
        library = memory.experiences("experience")
        assert library.validate().ok  # what is wrong with a file is said, and the others are loaded
        selector = library.selector(role="CodeInterpreter")  # model=… lets a model choose, by the conditions alone
        prompt = ChatPromptTemplate.from_messages(
            [("system", "You write Python.\n{experiences}"), ("user", "{question}")]
        )
        print((selector | prompt).invoke({"question": "Read sales.csv and write the totals to a file."}).to_string())
        print(selector.select("What is the capital of Peru?").ids)  # nothing applies

Without a model they are chosen by the words of their conditions (`strategy="lexical"`), which is a first choice and
not more. `strategy="auto"` asks a model only where the words leave it open, and a model that fails or answers
nonsense is replaced by the words, with an event for hooks.
"""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from langchain_agentmem.base.concurrency import awaited, check_cancelled
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.experiences.experience import Experience, Folder, Problem, write_new
from langchain_agentmem.experiences.experience_selector import ExperienceSelector, SelectorOptions
from langchain_agentmem.storage.database import MemoryLike, database_of


@dataclass(frozen=True, kw_only=True, slots=True)
class LibraryCheck:
    """What a look at every file of a library found.

    Attributes:
        experiences: Those that count, in the order of their files.
        problems: What is wrong with files, those that count nevertheless included.
    """

    experiences: tuple[Experience, ...]
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether every file counts."""
        return all(problem.is_loaded for problem in self.problems)


class ExperienceLibrary:
    """A folder of YAML files, each with one experience or a list of them. Methods that wait have awaited twins.

    Files `*.yaml` and `*.yml` are read, except hidden ones and those whose names begin with `raw_exp_`. Of two
    experiences with one `exp_id` the first counts: the files of a folder come before those below it, then they go by
    name. A file that cannot be used is left out: a warning is logged once, and `validate` says why.

    Attributes:
        database: The database of the memory.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        directory: The folder.
        subfolders: Whether files in folders below it count too. Default False.

    Raises:
        InvalidInput: There is no such folder, or an argument is wrong.
        StorageError: The database cannot be opened.
    """

    def __init__(self, memory: MemoryLike, directory: str | os.PathLike[str], *, subfolders: bool = False) -> None:
        self.database = database_of(memory)
        self._folders = Folder(directory, subfolders=subfolders)

    def __repr__(self) -> str:
        return f"ExperienceLibrary({safe_repr(str(self.directory))})"

    @property
    def directory(self) -> Path:
        """The folder."""
        return self._folders.directory

    def selector(self, **options: Unpack[SelectorOptions]) -> ExperienceSelector:
        """A Runnable that puts what applies into a prompt, messages or a state.

        Args:
            **options: What `ExperienceSelector` takes, such as `role`, `model`, `strategy`, `max_selected`, `session`.

        Raises:
            InvalidInput: An argument is wrong.
        """
        try:
            inspect.signature(ExperienceSelector).bind(self, **options)
        except TypeError as error:
            raise InvalidInput(f"Experiences cannot be selected like this: {error}.") from error
        return ExperienceSelector(self, **options)

    # -- what the folder holds ----------------------------------------------------------------------------------

    def load(self, sub_path: str | None = None) -> list[Experience]:
        """The experiences that the folder holds now (the original system's `load_experience`).

        Each file that cannot be used is logged once as a warning; `validate` returns the reasons.

        Args:
            sub_path: Only those of this folder below it. Default: its own.

        Raises:
            InvalidInput: There is no such folder below it.
        """
        return list(self._folders.load(sub_path).experiences)

    aload = awaited(load)

    def validate(self, sub_path: str | None = None) -> LibraryCheck:
        """Look at every file, and say what is wrong.

        Args:
            sub_path: As for `load`.
        """
        shelf = self._folders.look(sub_path)
        return LibraryCheck(experiences=shelf.experiences, problems=shelf.problems)

    avalidate = awaited(validate)

    def add(self, experience: Experience) -> Path:
        """Write an experience to a file of its own. It counts from now on.

        Args:
            experience: What to write.

        Returns:
            The file.

        Raises:
            InvalidInput: The library has this `exp_id`, or the file cannot be written.
        """
        if not isinstance(experience, Experience):
            raise InvalidInput(f"A library holds experiences, not {type(experience).__name__}.")
        with self.database.step("experience.add", experience.to_dict) as step:
            shelf = self._folders.look()
            if (file := shelf.files.get(experience.exp_id)) is not None:
                raise InvalidInput(
                    f"The library has {safe_repr(experience.exp_id)} already, in {safe_repr(file)}. Change it there."
                )
            check_cancelled()
            path = write_new(self.directory, experience.exp_id, experience.to_yaml())
            step.finish(lambda: {"file": path.name})
        return path

    aadd = awaited(add)
