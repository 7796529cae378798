r"""`ExperienceLibrary`: a folder of handcrafted experiences, and what is known of their use.

    library = memory.experiences("experience")
    chain = library.selector(role="Planner") | prompt | model
    library.feedback("file-validation", helped=True, note="the file was not there")
    print(library.report())

The folder is what people write, and every selection sees it as it is then. What the database holds is how often each
experience was chosen, and whether it helped.

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
        library.feedback("file-validation", helped=True, note="The file was not there.")
        print([(usage.exp_id, usage.verdict) for usage in library.report()])

Without a model they are chosen by the words of their conditions (`strategy="lexical"`), which is a first choice and
not more. `strategy="auto"` asks a model only where the words leave it open, and a model that fails or answers
nonsense is replaced by the words, with an event for hooks.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar, Unpack

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import Namespace, id_of, namespace_of, path_of, range_of, running_config
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences import experience_part
from langchain_agentmem.experiences.experience import PREFIX, Experience, Folder, Problem, write_new
from langchain_agentmem.experiences.experience_part import Feedback, Tally
from langchain_agentmem.experiences.experience_selector import ExperienceSelector, SelectorOptions
from langchain_agentmem.language_models.model_calls import (
    Do,
    In,
    Performer,
    Run,
    Shown,
    Work,
    across,
    both,
)
from langchain_agentmem.rewinding.memory_access import listed
from langchain_agentmem.storage import Steps
from langchain_agentmem.storage.database import Database, MemoryLike, database_of
from langchain_agentmem.tracing import brief

T = TypeVar("T")

NOTES = 5
"""How many of the newest notes a report shows of an experience."""


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


class Usage(NamedTuple):
    """How an experience has fared.

    Attributes:
        exp_id: Its id.
        tally: How often it was considered and chosen, and was said to help or not.
        notes: The newest of what was said of it.
        is_there: Whether the library still has it; None where no library was asked.
    """

    exp_id: str
    tally: Tally
    notes: tuple[Feedback, ...] = ()
    is_there: bool | None = None

    @property
    def verdict(self) -> str:
        """In two words: "never considered", "never applies", "no feedback", "helps", "hurts" or "disputed"."""
        tally = self.tally
        if not tally.helped + tally.not_helped:
            return "never considered" if not tally.considered else "no feedback" if tally.chosen else "never applies"
        return (
            "helps" if tally.helped > tally.not_helped else "hurts" if tally.helped < tally.not_helped else "disputed"
        )


class ExperienceLibrary(Performer):
    """A folder of YAML files, each with one experience or a list of them. Methods that wait have awaited twins.

    Files `*.yaml` and `*.yml` are read, except hidden ones and those whose names begin with `raw_exp_`. Of two
    experiences with one `exp_id` the first counts: the files of a folder come before those below it, then they go by
    name. A file that cannot be used is left out: a warning is logged once, and `validate` says why.

    Attributes:
        database: Where feedback is kept.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database, where feedback is kept.
        directory: The folder.
        subfolders: Whether files in folders below it count too. Default False.
        namespace: Whose feedback is kept and counts. Default: the running config's, else the root, which sees that of
            all.

    Raises:
        InvalidInput: There is no such folder, or an argument is wrong.
        StorageError: The database cannot be opened.
    """

    def __init__(
        self,
        memory: MemoryLike,
        directory: str | os.PathLike[str],
        *,
        subfolders: bool = False,
        namespace: Sequence[str] | None = None,
    ) -> None:
        if namespace is not None:
            path_of(namespace)
        self.database = self._database = database_of(memory)
        self._folders = Folder(directory, subfolders=subfolders, measures=self.database.measures)
        self.namespace = namespace

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

    def _load_work(self, sub_path: str | None = None) -> Work[list[Experience]]:
        """The experiences that the folder holds now (the original system's `load_experience`).

        Each file that cannot be used is logged once as a warning; `validate` returns the reasons.

        Args:
            sub_path: Only those of this folder below it. Default: its own.

        Raises:
            InvalidInput: There is no such folder below it.
        """
        shelf = yield Do(partial(self._folders.load, sub_path))
        return list(shelf.experiences)

    load, aload = both(_load_work)

    def _validate_work(self, sub_path: str | None = None) -> Work[LibraryCheck]:
        """Look at every file, and say what is wrong.

        Args:
            sub_path: As for `load`.
        """
        shelf = yield Do(partial(self._folders.look, sub_path))
        return LibraryCheck(experiences=shelf.experiences, problems=shelf.problems)

    validate, avalidate = both(_validate_work)

    def _add_work(self, experience: Experience) -> Work[Path]:
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
        path: Path = yield Shown(
            "experience.add",
            self._adding(experience),
            inputs=lambda: {
                "exp_id": experience.exp_id,
                "roles": experience.who,
                "when": brief(experience.when),
                "what": brief(experience.what),
            },
            outputs=lambda path: {"file": path.name},
        )
        return path

    add, aadd = both(_add_work)

    # -- how they fare ------------------------------------------------------------------------------------------

    def _feedback_work(
        self,
        exp_id: str,
        helped: bool,  # noqa: FBT001 - it reads well: feedback(exp_id, True)
        note: str = "",
        conversation_id: str | None = None,
    ) -> Work[str]:
        """Keep whether an experience helped. Selections count it from now on.

        It belongs to the experience, also when that is edited later. It is not rewound with a thread.

        Args:
            exp_id: Which experience.
            helped: Whether it did.
            note: Why, in any words.
            conversation_id: The conversation in which it did, with which this is erased. Default: the running thread.

        Returns:
            The id of what was kept.

        Raises:
            InvalidInput: The library has no such experience, or an argument is wrong.
        """
        if conversation_id is None:
            conversation_id = ((running_config() or {}).get("configurable") or {}).get("thread_id")
        path = path_of(self.database.scopes.resolve(self.namespace))
        said = Feedback(
            feedback_id=self.database.new_id(),
            exp_id=id_of(exp_id, "experience"),
            helped=helped,
            note=note,
            conversation_id=conversation_id,
            created_at=moment(self.database.now()),
        )
        experience_part.stored(said)  # before the files are looked at
        yield Do(partial(self._check_known, said.exp_id))
        run = Run(
            "experience.feedback",
            partial(experience_part.add_feedback, path, said),
            write=True,
            inputs=lambda: {
                "namespace": namespace_of(path),
                "exp_id": said.exp_id,
                "helped": said.helped,
                "note": brief(said.note),
                "conversation_id": said.conversation_id,
            },
            outputs=lambda _: {"feedback_id": said.feedback_id},
        )
        yield In(self.database.at(path), run)
        return said.feedback_id

    feedback, afeedback = both(_feedback_work)

    def _report_work(self) -> Work[list[Usage]]:
        """How each experience has fared: those of the library in its order, then those that it has no more."""
        return (yield from reporting(self.database, self.database.scopes.resolve(self.namespace), self._folders))

    report, areport = both(_report_work)

    # -- plumbing -----------------------------------------------------------------------------------------------

    def _adding(self, experience: Experience) -> Work[Path]:
        shelf = yield Do(self._folders.look)
        if (file := shelf.files.get(experience.exp_id)) is not None:
            raise InvalidInput(
                f"The library has {safe_repr(experience.exp_id)} already, in {safe_repr(file)}. Change it there."
            )
        path: Path = yield Do(partial(write_new, self.directory, PREFIX, experience.exp_id, experience.to_yaml()))
        return path

    def _check_known(self, exp_id: str) -> None:
        shelf = self._folders.look()
        if exp_id not in shelf.files and exp_id not in self._folders.look_below().files:
            known = ", ".join(map(repr, shelf.files)) or "none"
            raise InvalidInput(
                f"There is no experience {safe_repr(exp_id)} in {safe_repr(str(self.directory))}. There are: "
                f"{known:.300}."
            )


def reporting(database: Database, namespace: Namespace, folders: Folder | None = None) -> Work[list[Usage]]:
    """How experiences have fared: those of a folder in its order, then those that only the database knows, by ids.

    Args:
        database: Where that is kept.
        namespace: What is known there and below counts.
        folders: The folder. Default: nobody looks whether there is still a file.
    """
    usages: list[Usage] = yield Shown(
        "experience.report",
        _reporting(database.below(path_of(namespace)), *range_of(namespace), folders),
        inputs=lambda: {"namespace": namespace},
        outputs=lambda usages: listed(
            "experiences",
            usages,
            lambda each: {"exp_id": each.exp_id, "verdict": each.verdict, **each.tally._asdict()},
        ),
    )
    return usages


def _reporting(databases: Sequence[Database], low: str, high: str, folders: Folder | None) -> Work[list[Usage]]:
    def reading() -> Steps[tuple[dict[str, Tally], list[Feedback]]]:
        tallies = yield from experience_part.counts(low, high)
        return tallies, (yield from experience_part.feedback_of(low, high))

    read = yield from across(databases, Run("experience.feedback_of", reading, shown=False))
    tallies = experience_part.added(told for told, _ in read)
    said = sorted(chain.from_iterable(said for _, said in read), key=lambda each: each.created_at, reverse=True)
    notes: dict[str, list[Feedback]] = {}
    for each in said:
        notes.setdefault(each.exp_id, []).append(each)
    is_there: dict[str, bool | None] = dict.fromkeys(sorted(tallies))
    if folders is not None:
        here = [each.exp_id for each in (yield Do(folders.look)).experiences]
        others = [each for each in is_there if each not in here]
        below = (yield Do(folders.look_below)).files if others else {}
        is_there = {**dict.fromkeys(here, True), **{each: each in below for each in others}}
    return [
        Usage(exp_id, tallies.get(exp_id, Tally()), tuple(notes.get(exp_id, ())[:NOTES]), there)
        for exp_id, there in is_there.items()
    ]
