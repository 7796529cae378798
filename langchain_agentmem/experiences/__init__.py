"""Experiences: handcrafted instructions, each with the condition under which it applies.

An `ExperienceLibrary` reads experiences from a folder. An `ExperienceSelector` chooses those that apply and inserts
them into a prompt. This package may import `conversations`, `rewinding`, `language_models` and lower layers. Begin with
`experience_library.py` (one selection), then `lexical_choice.py` (by words) and `model_choice.py` (by a model).

Experiences are files, since people write and review them. Each selection reads the folder, and parses the files that
have changed. The words of the conditions are always compared first, which takes a fraction of a millisecond. The
strategy determines whether a model decides, and about which candidates. A model's answers are cached by its whole
prompt, so a changed prompt is never answered from the cache.

Chosen instructions are placed before the question that they were chosen for. In a thread they stay there, so that a
provider's cache of the prompt stays valid. They are fenced and marked, so that no log, compaction or conversation
treats them as a message. To put them into a system message, write it as a prompt with the variable `{experiences}`.
"""
