"""A person reviews what was proposed: puts it to use, perhaps in better words, or rejects it; and may think again.

    for proposal in library.proposals():
        print(proposal.state, proposal.text)
    library.decide("proposed_exp_check-file-first.yaml", "approved", by="Maria")

A proposal is a file, and stays one. Whatever is decided moves it, and its first lines say who decided it and when.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from langchain_agentmem.base.argument_checks import name_given, text_given
from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.experience import LARGEST, PREFIX, SUFFIX, Experience, read_experience, write_new
from langchain_agentmem.experiences.experience_proposals import FOLDER, NOT_IN_USE, PROPOSED, TO_USE
from langchain_agentmem.language_models.model_calls import Do, Shown, Work

if TYPE_CHECKING:
    from langchain_agentmem.experiences.experience_library import ExperienceLibrary

ProposalState: TypeAlias = Literal["proposed", "approved", "rejected"]
WAITS, APPROVED, REJECTED = "proposed", "approved", "rejected"
"""What a proposal can be."""
_PREFIXES = {WAITS: PROPOSED, APPROVED: PREFIX, REJECTED: "rejected_exp_"}
_DID = {WAITS: "Proposed again", APPROVED: "Approved", REJECTED: "Rejected"}


class Proposal(NamedTuple):
    """What was proposed.

    Attributes:
        file: The name of its file.
        state: "proposed", "approved" or "rejected".
        text: The file: YAML, and before that in lines of comment where it comes from and who decided what.
        experience: What it says; None where it cannot be used as it is.
        problem: Why it cannot; "" where it can.
    """

    file: str
    state: str
    text: str
    experience: Experience | None
    problem: str


def listing(library: ExperienceLibrary) -> Work[list[Proposal]]:
    """What was proposed, see `ExperienceLibrary.proposals`."""
    found: list[Proposal] = yield Do(partial(_listed, library))
    return found


def deciding(library: ExperienceLibrary, file: Any, state: Any, by: Any, text: Any) -> Work[Path]:
    """Decide on a proposal, see `ExperienceLibrary.decide`."""
    if state not in _DID:
        raise InvalidInput(f"A proposal is {', '.join(_DID)}, not {safe_repr(state)}.")
    who = name_given(by, "the name of who decides")
    said = None if text is None else text_given(text, "The text of a proposal")
    path: Path = yield Shown(
        "experience.decide",
        _decided(library, file, state, who, said),
        inputs=lambda: {"file": file, "state": state, "by": who},
        outputs=lambda path: {"file": path.name},
    )
    return path


def _decided(library: ExperienceLibrary, file: Any, state: str, by: str, text: str | None) -> Work[Path]:
    path: Path = yield Do(partial(_move, library, file, state, by, text))
    return path


def _listed(library: ExperienceLibrary) -> list[Proposal]:
    folder = library.directory / FOLDER
    found = []
    for state in (WAITS, REJECTED):
        names = [each.name for each in folder.glob(f"{_PREFIXES[state]}*{SUFFIX}")]
        found += [_proposal(folder / name, state) for name in sorted(names)]
    names = sorted({*library._folders.look().files.values()})
    used = [_proposal(library.directory / name, APPROVED) for name in names]
    return [*found, *(each for each in used if f"\n# {_DID[APPROVED]} on " in f"\n{each.text}")]


def _proposal(path: Path, state: str) -> Proposal:
    try:
        data = path.read_bytes() if path.stat().st_size <= LARGEST else b""
    except OSError as error:
        return Proposal(path.name, state, "", None, f"It cannot be read: {error.strerror or error}.")
    held = read_experience(data)
    text = data.decode("utf-8-sig", "replace")
    return Proposal(path.name, state, text, *((held, "") if isinstance(held, Experience) else (None, held)))


def _move(library: ExperienceLibrary, file: Any, state: str, by: str, text: str | None) -> Path:
    found = next((each for each in _listed(library) if each.file == file and each.state != state), None)
    if found is None:
        raise InvalidInput(f"There is no proposal {safe_repr(file)} that is not {state} already.")
    said = found.text if text is None else text
    held = read_experience(said.encode("utf-8", "replace"))
    exp_id = file.removeprefix(_PREFIXES[found.state]).removesuffix(SUFFIX)
    if isinstance(held, Experience):
        exp_id = held.exp_id
    elif state == APPROVED:
        raise InvalidInput(f"It cannot be put to use as it is: {held}")
    if state == APPROVED and (there := library._folders.look().files.get(exp_id)) is not None:
        raise InvalidInput(
            f"The library has {safe_repr(exp_id)} already, in {safe_repr(there)}. Give it another exp_id."
        )
    lines = said.splitlines()
    head = next((place for place, line in enumerate(lines) if not line.startswith("#")), len(lines))
    notes = [line for line in lines[:head] if line != f"# {NOT_IN_USE}" and not line.startswith(f"# {TO_USE}")]
    before = [] if state == APPROVED else [f"# {NOT_IN_USE}"]
    notes.append(f"# {_DID[state]} on {moment(library.database.now()):%Y-%m-%d %H:%M} UTC by {safe_repr(by)}.")
    folder = library.directory if state == APPROVED else library.directory / FOLDER
    old = library.directory / ("" if found.state == APPROVED else FOLDER) / found.file
    new = None
    try:
        folder.mkdir(exist_ok=True)
        new = write_new(folder, _PREFIXES[state], exp_id, "\n".join([*before, *notes, *lines[head:], ""]))
        old.unlink()
    except OSError as error:  # such as where somebody else has decided meanwhile
        if new is not None:
            new.unlink(missing_ok=True)
        raise InvalidInput(f"{safe_repr(found.file)} cannot be moved: {error.strerror or error}.") from error
    return new
