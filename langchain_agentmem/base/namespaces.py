"""Namespaces and ids: what may name a tenant, a user, a topic or a conversation.

A namespace is a tuple of labels. It is stored as a path in which every label is ended by U+001F; the namespaces
below a prefix are then one range of paths, which an index answers. Control characters are therefore not allowed
in labels, and since ids travel through two databases, logs and URLs, not in ids either.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar
from urllib.parse import unquote
from uuid import UUID

from langchain_agentmem.base.argument_checks import check_flag, check_value
from langchain_agentmem.errors import InvalidInput, safe_repr

C = TypeVar("C")

Namespace: TypeAlias = tuple[str, ...]


class ThreadKey(NamedTuple):
    """The path of a namespace, and the id of a thread or conversation there.

    Attributes:
        path: The path. Where a thread is looked up, the empty path stands for any namespace.
        name: The id.
    """

    path: str
    name: str


class RuntimeLike(Protocol):
    """LangGraph's `Runtime`, or its `ToolRuntime`."""

    @property
    def stream_writer(self) -> Callable[[Any], None]:
        """By what it is told from a config."""
        ...


ThreadLike: TypeAlias = Mapping[str, Any] | RuntimeLike
"""What names a thread: a config, or a runtime that LangGraph hands out."""

CONFIG_KEY = "agentmem_namespace"
"""Where a run's `config["configurable"]` names its namespace."""

EXAMPLE = '{"configurable": {"thread_id": "…"}}'
"""A config, as errors show one."""

LONGEST_LABEL = 200
LONGEST_PATH = 2_000
LONGEST_ID = 500

_OURS = "agentmem_"
_KEY = re.compile(r"\{([^\W\d]\w*)\}")
_END = NESTED = "\x1f"
_AFTER_END = "\x20"
_LAST = "\U0010ffff" * (LONGEST_LABEL + 1)  # behind every path, that of the last label of all included
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def path_of(namespace: Any) -> str:
    """The stored form of a namespace.

    Args:
        namespace: A tuple or list of labels; empty for the root.

    Raises:
        InvalidInput: It is not a tuple of usable labels.
    """
    if isinstance(namespace, str):
        meant = safe_repr(tuple(filter(None, namespace.split("/"))) or (namespace,))
        raise InvalidInput(f"A namespace is a tuple of strings: write {meant} instead of {safe_repr(namespace)}.")
    if not isinstance(namespace, tuple | list):
        raise InvalidInput(f"A namespace is a tuple of strings, not {type(namespace).__name__}.")
    for label in namespace:
        if not isinstance(label, str) or not label or len(label) > LONGEST_LABEL or _FORBIDDEN.search(label):
            raise InvalidInput(
                f"The label {safe_repr(label)} cannot be part of a namespace: labels are strings of 1 to "
                f"{LONGEST_LABEL} characters without control characters."
            )
    path = "".join(label + _END for label in namespace)
    if (size := len(path.encode())) > LONGEST_PATH:
        raise InvalidInput(f"A namespace may have {LONGEST_PATH} bytes in all; this one has {size}.")
    return path


def namespace_of(path: str) -> Namespace:
    """The namespace that a stored path stands for."""
    return tuple(path.split(_END)[:-1])


def namespace_named(path: str | None) -> Namespace:
    """The namespace that is written as "a/b", a slash within a label as in URLs: "%2F".

    Args:
        path: What was written; "/", and None where nothing was, for the root.

    Raises:
        InvalidInput: A label is empty, as where a variable of a shell was not set: that names nothing, not everything.
    """
    if path is None or path == "/":
        return ()
    labels = path.split("/")
    if not all(labels):
        raise InvalidInput(
            f"{safe_repr(path)} is no namespace: write labels separated by /, such as users/ada; / alone is everything."
        )
    return tuple(map(unquote, labels))


def named(namespace: Namespace, *more: str) -> str:
    """A namespace, and what is in it, as a person writes it: `namespace_named` reads it."""
    return "/".join(label.replace("%", "%25").replace("/", "%2F") for label in (*namespace, *more)) or "/"


def nested_conversation(thread: str, ns: str) -> str:
    """Return the id of the conversation of a nested graph: that of its thread, U+001F, and the graph's namespace.

    Args:
        thread: The thread's id.
        ns: The "checkpoint_ns" of the graph; one that is too long to be part of an id is replaced by its digest.
    """
    return f"{thread}{_END}{ns if len(ns) <= LONGEST_LABEL else blake2b(ns.encode(), digest_size=20).hexdigest()}"


def nested_range(thread: str) -> tuple[str, str]:
    """Return the range of the ids of the conversations of a thread's nested graphs: its first, and what follows it."""
    return thread + _END, thread + _AFTER_END


def is_nested(conversation: str) -> bool:
    """Return whether an id is that of a nested graph's conversation."""
    return _END in conversation


def thread_around(conversation: str) -> str:
    """Return the id of the thread to which a nested graph's conversation belongs; any other id is returned as it is."""
    return conversation.partition(_END)[0] or conversation


def label_within(label: str) -> tuple[str, str]:
    """By what it is told that a path has a label: the end of a label to put before the path, and what it has then."""
    return _END, f"{_END}{label}{_END}"


def range_of(namespace: Any) -> tuple[str, str]:
    """The paths of a namespace and of all below it: from the first, up to but without the second."""
    path = path_of(namespace)
    return (path, path[:-1] + _AFTER_END) if path else ("", _LAST)


def id_of(value: Any, what: str, error: type[InvalidInput] = InvalidInput) -> str:
    """Check an id given by a user.

    Args:
        value: A string; whole numbers and UUIDs are written as one.
        what: What it names, for the error.
        error: The error to raise.

    Raises:
        InvalidInput: It is empty, too long, or has control characters.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    text = value if isinstance(value, str) else str(value) if is_number or isinstance(value, UUID) else ""
    parts = text.split(_END, 1) if what == "conversation" else [text]  # that of a nested graph has two
    if not all(part and len(part) <= LONGEST_ID and not _FORBIDDEN.search(part) for part in parts):
        named = f"the {what}" if what.endswith("_id") else f"the id of {'an' if what[:1] in 'aeiou' else 'a'} {what}"
        raise error(
            f"{safe_repr(value)} cannot be {named}: ids are strings of 1 to {LONGEST_ID} characters without control "
            "characters."
        )
    return text


class ThreadId(str):
    """The id of a thread as a saver gives it: LangGraph names subgraphs by the id alone, so it tells whose it is.

    Attributes:
        namespace: The namespace of the thread.
    """

    __slots__ = ("namespace",)
    namespace: Namespace

    def __new__(cls, value: str, namespace: Namespace = ()) -> Self:
        """An id, with the namespace of its thread."""
        made = super().__new__(cls, value)
        made.namespace = namespace
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return ThreadId, (str(self), self.namespace)


class Scopes(NamedTuple):
    """Who remembers for whom: how a call is led to the namespace whose threads share their memory.

    Attributes:
        template: Labels with keys of the config in braces, as `("users", "{user_id}")`; empty for one scope for all.
            Default: none, and a config names its namespace itself.
        bare_threads: Whether a config that lacks the keys means the only thread of its id. Default: no.
        keeps: Whether a scope keeps what a thread taught it when the thread is deleted. Default: yes.
        within: The namespace out of which nothing leads. Default: none.
        home: Gives the namespace of the thread that a run loaded, whose config lacks the keys. Default: the root.
    """

    template: Namespace | None = None
    bare_threads: bool = False
    keeps: bool = True
    within: Namespace | None = None
    home: Callable[[Mapping[str, Any]], Namespace] = lambda _: ()

    def shared(self, path: str) -> bool:
        """Whether the threads of a namespace see each other: not in the root, unless the template says so."""
        return bool(path) or self.template == ()

    def narrowed(self, namespace: Any, keys: Mapping[str, Any]) -> Scopes:
        """The same within a namespace, out of which nothing leads.

        Args:
            namespace: The namespace; None where the keys lead to it.
            keys: What the keys of the template stand for.

        Raises:
            InvalidInput: It is not a tuple of usable labels, lies elsewhere than this may lead to, or neither or both
                are given.
        """
        if (namespace is None) == (not keys):
            raise InvalidInput('Name one namespace: within(("users", "ada")), or a template\'s key, user_id="ada".')
        if namespace is not None:
            return self._replace(within=self._inside(self.checked(namespace)))
        if unknown := set(keys) - set(self.keys):
            missing = ", ".join(map(safe_repr, sorted(unknown)))
            raise InvalidInput(
                f"The template of this memory, {safe_repr(self.template)}, has no key {missing}: name the namespace "
                'itself, within(("users", "ada")), or open the memory with namespace=("users", "{user_id}").'
            )
        return self._replace(within=self._inside(self.filled({key: id_of(keys[key], key) for key in keys})))

    def resolve(self, given: Any, config: Any = None, *, bare: bool = False) -> Namespace:
        """The namespace that a call means: the given one, else that of its run.

        Args:
            given: What the caller said; None or an empty tuple for nothing.
            config: The run's config, where the caller has it. Default: that of the run this is called in.
            bare: Whether nothing needs to be named outside of runs: then every namespace is meant, as the root. And one
                whose label is a key in braces, which an earlier version could have made, is found and erased as well.

        Raises:
            InvalidInput: It is not a tuple of usable labels, lies out of what this may lead to, has a key that nothing
                fills, the config lacks a key of the template, or names another namespace than the template.
        """
        if given is not None and not (isinstance(given, tuple | list) and not given):
            return self._inside(given if bare else self.checked(given))
        if self.within is not None:
            said = self.said(config)
            if said is not None and said != self.within:
                raise InvalidInput(
                    f"The config leads to {safe_repr(said)}; this is the memory of {safe_repr(self.within)}."
                )
            return self.within
        config = config if config is not None else running_config()
        said = self.said(config)
        if said or (said is not None and self.template is not None):
            return said
        configurable = configurable_of(config)
        if self.template is None:  # () stands for the only thread of its id, as a config that says nothing does
            return self.home(configurable)
        missing = [key for key in self.keys if _value(key, configurable) is None]
        nobody = len(missing) == len(self.keys)  # who names a part of the keys means somebody
        everybody = bare and running_config() is None  # a run is somebody's
        if nobody and (everybody or (self.bare_threads and "thread_id" in configurable)):
            return self.home(configurable)
        example = ", ".join(f'"{key}": "…"' for key in missing)
        nowhere = "" if given is None else " () names nobody; a search looks everywhere with everything=True."
        raise InvalidInput(
            f"The namespace {safe_repr(self.template)} needs {', '.join(missing)}: say it in the run's config, "
            f'{{"configurable": {{{example}}}}}, and outside of runs with {self._narrowing}.{nowhere}'
        )

    @property
    def foreign(self) -> Scopes:
        """How the config of a saver of others leads, which knows no template."""
        return Scopes(within=self.within)

    def said(self, config: Any) -> Namespace | None:
        """The namespace that a config says itself, by its name or by the keys of the template; None where it does not.

        A run whose graph has a checkpointer of `within` says that one's.

        Args:
            config: The config; None says nothing.

        Raises:
            InvalidInput: It is none, says two things, or has a key that begins as ours do and is none.
        """
        configurable = configurable_of(config)
        for key in configurable:
            if isinstance(key, str) and key.startswith(_OURS) and key != CONFIG_KEY:
                raise InvalidInput(f"A config has no key {safe_repr(key)}; {CONFIG_KEY} names a namespace.")
        named = configurable.get(CONFIG_KEY)
        path = path_of(named) if CONFIG_KEY in configurable else None
        of_thread = getattr(configurable.get("thread_id"), "namespace", None)  # a text from outside has none
        of_thread = of_thread or self._of_graph(configurable)
        if self.template is None:
            return of_thread if path is None else namespace_of(path)
        values = {key: _value(key, configurable) for key in self.keys}
        if None in values.values():
            told = {key: value for key, value in values.items() if value is not None}
            home = path if path is not None or self.within is None else path_of(self.within[: len(self.template)])
            if told and home is not None and not told.items() <= self.keys_of(home).items():
                raise InvalidInput(
                    f"The config says {safe_repr(told)}, which does not lead to {safe_repr(namespace_of(home))}."
                )
            # What a saver returned carries the name beside the keys; alone it counts where an id alone would do.
            alone = self.bare_threads or self.within is not None
            return namespace_of(path) if alone and path is not None else None if told else of_thread or None
        filled = self.filled({key: value or "" for key, value in values.items()})
        if path is not None and path_of(filled) != path:
            raise InvalidInput(
                f"The config names the namespace {safe_repr(named)}, and its keys lead to {safe_repr(filled)}."
            )
        return filled

    def _of_graph(self, configurable: Mapping[str, Any]) -> Namespace | None:
        """Within which namespace the checkpointer of the running graph is, where it is one of this memory."""
        scopes = getattr(getattr(configurable.get("__pregel_checkpointer"), "database", None), "scopes", None)
        return scopes.within if isinstance(scopes, Scopes) and scopes._replace(within=self.within) == self else None

    def check_one(self, paths: Collection[str], name: str, how: str) -> None:
        """Check that it is told whose thread is meant, where threads belong to users.

        Args:
            paths: The paths of the namespaces that have one of this id.
            name: The id.
            how: What to do instead.

        Raises:
            InvalidInput: Several have one, and nobody says whose is meant.
        """
        if self.template and self.within is None and len(paths) > 1:
            homes = ", ".join(safe_repr(namespace_of(path)) for path in sorted(paths)[:3])
            raise InvalidInput(f"There is a thread {safe_repr(name)} in several namespaces ({homes}, …): {how}.")

    def leads_here(self) -> bool:
        """Whether the run that this is called in may be one of this memory: not where it says another namespace."""
        running = running_config()
        return running is not None and (self.within is None or self.said(running) in (None, self.within))

    def check_new(self, path: str, name: str) -> None:
        """Check that a thread may begin: one whose config lacks the keys of the template may not.

        Args:
            path: The path of its namespace.
            name: Its id.

        Raises:
            InvalidInput: It may not.
        """
        if self.template is None:
            self.checked(namespace_of(path))
        if not path and self.keys:
            raise InvalidInput(
                f"There is no thread {safe_repr(name)} yet, and a new one needs {', '.join(self.keys)} in the config."
            )

    @property
    def keys(self) -> list[str]:
        """The keys of the template."""
        return [key for label in self.template or () for key in _KEY.findall(label)]

    def filled(self, values: Mapping[str, str]) -> Namespace:
        """The template, filled with values of its keys."""
        filled = tuple(_KEY.sub(lambda key: values[key[1]], label) for label in self.template or ())
        return namespace_of(path_of(filled))

    def checked(self, given: Any) -> Namespace:
        """A namespace of whose labels none waits to be filled: taken as it is, it would be one for all users."""
        named = namespace_of(path_of(given))
        if named != self.template and any(map(_KEY.search, named)):
            fills = self._narrowing if self.keys else "AgentMemory(url, namespace=…), whose runs and within(…) fill it"
            raise InvalidInput(f"{safe_repr(named)} has a key that nothing fills: write whose it is, or use {fills}.")
        return named

    def _inside(self, given: Any) -> Namespace:
        """A namespace that was named."""
        named, within = namespace_of(path_of(given)), self.within or ()
        if named == self.template and self.keys:
            raise InvalidInput(f"{safe_repr(named)} is the template itself: say whose memory with {self._narrowing}.")
        if named[: len(within)] != within:
            raise InvalidInput(f"The namespace {safe_repr(named)} is not within {safe_repr(within)}.")
        return named

    @property
    def _narrowing(self) -> str:
        """How the template is filled by hand, for errors."""
        return f"memory.within({', '.join(f'{key}=…' for key in self.keys)})"

    def keys_of(self, path: str) -> dict[str, str]:
        """The keys that lead to a stored namespace, for a config that names something in it.

        Args:
            path: The path of the namespace.
        """
        labels, found = namespace_of(path), {}
        if self.template is None or len(labels) != len(self.template):
            return {}
        for label, form in zip(labels, self.template, strict=True):
            parts = _KEY.split(form)  # text and keys by turns
            pattern = "".join(f"(?P<{part}>.+)" if odd % 2 else re.escape(part) for odd, part in enumerate(parts))
            match = re.fullmatch(pattern, label, re.DOTALL)
            if match is None:
                return {}
            found.update(match.groupdict())
        return found


def scopes_given(template: Any, *, bare_threads: Any = False, on_thread_delete: Any = "keep") -> Scopes:
    """Check how namespaces are told.

    Raises:
        InvalidInput: The template is no tuple of labels, or has braces that hold no name.
    """
    if template is not None:
        path_of(template)
        for label in template:
            if re.search(r"[{}]", _KEY.sub("", label)):
                raise InvalidInput(f'The label {safe_repr(label)} has braces that hold no key, as "{{user_id}}" does.')
            if len(_KEY.findall(label)) > 1:  # "a-b" and "c" would lead where "a" and "b-c" do
                raise InvalidInput(f"The label {safe_repr(label)} has several keys: give each a label of its own.")
    check_flag("bare_threads", bare_threads)
    check_value(Literal["keep", "forget"], on_thread_delete, "on_thread_delete")
    return Scopes(None if template is None else tuple(template), bare_threads, on_thread_delete == "keep")


def _value(key: str, configurable: Mapping[str, Any]) -> str | None:
    """What a key of a template stands for: in the config, in the runtime's context, or who the server says it is."""
    context = getattr(configurable.get("__pregel_runtime"), "context", None)
    inside = context.get(key) if isinstance(context, Mapping) else getattr(context, key, None)
    known = configurable.get("langgraph_auth_user_id") if key == "user_id" else None
    found = [value for value in (configurable.get(key), inside, known) if value is not None]
    values = [id_of(value, key) for value in found]
    if len(set(values)) > 1:
        raise InvalidInput(f"The config, its context and the server do not agree on {key}: {', '.join(values)}.")
    return values[0] if values else None


def config_given(config: C) -> C:
    """A config that a caller gave, or None.

    Raises:
        InvalidInput: It is no config.
    """
    given: Any = config
    for names in (configurable_of(config), given or ()):
        if not set(map(type, names)) <= {str} and not all(isinstance(name, str) for name in names):
            raise InvalidInput(f"A config is a dictionary such as {EXAMPLE}, not {safe_repr(config)}.")
    return config


def configurable_of(config: Any) -> Mapping[str, Any]:
    """What a config says of its run: its thread, its checkpoint, its namespace.

    Args:
        config: A config of LangChain's; None says nothing.

    Raises:
        InvalidInput: It is no config.
    """
    found = config.get("configurable") if isinstance(config, Mapping) else config
    if found is None:
        if config is not None and "thread_id" in config:
            raise InvalidInput(f"The thread_id of a config stands within configurable: {EXAMPLE}.")
        return {}
    if not isinstance(found, Mapping):
        raise InvalidInput(f"A config is a dictionary such as {EXAMPLE}, not {safe_repr(config)}.")
    return found


def running_config() -> Mapping[str, Any] | None:
    """The config of the run that this is called in, if any."""
    # Where LangChain was never loaded, nothing runs.
    runs = sys.modules.get("langchain_core.runnables.config")
    config: Mapping[str, Any] | None = runs.var_child_runnable_config.get() if runs else None
    return config
