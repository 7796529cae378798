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
        """The attribute that distinguishes a runtime from a config."""
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
    """Return the stored form of a namespace.

    Args:
        namespace: A tuple or list of labels; empty for the root.

    Raises:
        InvalidInput: The namespace is not a tuple of usable labels.
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
    """Return the namespace of a stored path."""
    return tuple(path.split(_END)[:-1])


def namespace_named(path: str | None) -> Namespace:
    """Parse a namespace written as "a/b". A slash within a label is written as "%2F".

    Args:
        path: The written namespace; "/" or None for the root.

    Raises:
        InvalidInput: A label is empty, as for an unset shell variable. That must not mean the root.
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
    """Write a namespace and optional further labels in the form of `namespace_named`."""
    return "/".join(label.replace("%", "%25").replace("/", "%2F") for label in (*namespace, *more)) or "/"


def nested_conversation(thread: str, ns: str) -> str:
    """Return the conversation id of a nested graph.

    It consists of the thread's id, U+001F, and the graph's namespace.

    Args:
        thread: The thread's id.
        ns: The "checkpoint_ns" of the graph; one that is too long to be part of an id is replaced by its digest.
    """
    return f"{thread}{_END}{ns if len(ns) <= LONGEST_LABEL else blake2b(ns.encode(), digest_size=20).hexdigest()}"


def nested_range(thread: str) -> tuple[str, str]:
    """Return the id range of the conversations of a thread's nested graphs.

    It begins with the first id, and excludes the second.
    """
    return thread + _END, thread + _AFTER_END


def is_nested(conversation: str) -> bool:
    """Return whether an id is that of a nested graph's conversation."""
    return _END in conversation


def thread_around(conversation: str) -> str:
    """Return the id of the thread that a nested graph's conversation belongs to.

    Any other id is returned unchanged.
    """
    return conversation.partition(_END)[0] or conversation


def label_within(label: str) -> tuple[str, str]:
    """Return a prefix for a path, and the text that shows the label in the prefixed path."""
    return _END, f"{_END}{label}{_END}"


def range_of(namespace: Any) -> tuple[str, str]:
    """Return the path range of a namespace and all below it; the second path is excluded."""
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
    """The id of a thread from a checkpointer, with the namespace of the thread.

    LangGraph names subgraphs by the id alone.

    Attributes:
        namespace: The namespace of the thread.
    """

    __slots__ = ("namespace",)
    namespace: Namespace

    def __new__(cls, value: str, namespace: Namespace = ()) -> Self:
        """Create an id with the namespace of its thread."""
        made = super().__new__(cls, value)
        made.namespace = namespace
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return ThreadId, (str(self), self.namespace)


class Scopes(NamedTuple):
    """The rules that select the namespace of a call, whose threads share memory.

    Attributes:
        template: Labels with keys of the config in braces, such as `("users", "{user_id}")`; empty for one scope
            for all. Default: none, and a config names its namespace itself.
        bare_threads: Accept a config without the keys if only one thread has its id. Default: False.
        keeps: Keep a deleted thread's contributions to its scope. Default: True.
        within: The namespace that no call may leave. Default: none.
        home: Returns the namespace of the thread that a run loaded, if the config lacks the keys. Default: the root.
    """

    template: Namespace | None = None
    bare_threads: bool = False
    keeps: bool = True
    within: Namespace | None = None
    home: Callable[[Mapping[str, Any]], Namespace] = lambda _: ()

    def shared(self, path: str) -> bool:
        """Return whether the threads of a namespace share memory.

        In the root, they do so only with an empty template.
        """
        return bool(path) or self.template == ()

    def narrowed(self, namespace: Any, keys: Mapping[str, Any]) -> Scopes:
        """Return these scopes limited to a namespace, which no call may leave.

        Args:
            namespace: The namespace; None if `keys` select it.
            keys: The values of the template's keys.

        Raises:
            InvalidInput: The namespace is not a tuple of usable labels, or lies outside of `within`; or neither or both
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
        """Return the namespace that a call uses: the given one, else that of its run.

        Args:
            given: The caller's namespace; None or an empty tuple for none.
            config: The run's config. Default: the config of the surrounding run.
            bare: Require no namespace outside of runs: the root then stands for every namespace. A namespace with a key
                in braces as a label, which an earlier version could create, is accepted as well.

        Raises:
            InvalidInput: The namespace is not a tuple of usable labels, lies outside of `within`, or has an unfilled
                key; or the config lacks a key of the template, or names another namespace than the template.
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
        """The scopes for configs of other packages' checkpointers, without a template."""
        return Scopes(within=self.within)

    def said(self, config: Any) -> Namespace | None:
        """Return the namespace that a config itself names, or None.

        A config names it directly or by the keys of the template.

        A run whose graph has a checkpointer of `within` uses that checkpointer's namespace.

        Args:
            config: The config; None names no namespace.

        Raises:
            InvalidInput: `config` is no config, names two namespaces, or has an unknown key with the package's prefix.
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
        """Return the namespace that the running graph's checkpointer of this memory is limited to."""
        scopes = getattr(getattr(configurable.get("__pregel_checkpointer"), "database", None), "scopes", None)
        return scopes.within if isinstance(scopes, Scopes) and scopes._replace(within=self.within) == self else None

    def check_one(self, paths: Collection[str], name: str, how: str) -> None:
        """Check that a thread id is unambiguous, if threads belong to users.

        Args:
            paths: The paths of the namespaces that have one of this id.
            name: The id.
            how: The remedy, for the error.

        Raises:
            InvalidInput: Several namespaces have a thread of this id, and none is specified.
        """
        if self.template and self.within is None and len(paths) > 1:
            homes = ", ".join(safe_repr(namespace_of(path)) for path in sorted(paths)[:3])
            raise InvalidInput(f"There is a thread {safe_repr(name)} in several namespaces ({homes}, …): {how}.")

    def leads_here(self) -> bool:
        """Return whether the surrounding run, if any, may use this memory's namespace."""
        running = running_config()
        return running is not None and (self.within is None or self.said(running) in (None, self.within))

    def check_new(self, path: str, name: str) -> None:
        """Check that a thread may begin: its config must have the keys of the template.

        Args:
            path: The path of the thread's namespace.
            name: The thread's id.

        Raises:
            InvalidInput: The thread may not begin.
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
        """Return the template, filled with values of its keys."""
        filled = tuple(_KEY.sub(lambda key: values[key[1]], label) for label in self.template or ())
        return namespace_of(path_of(filled))

    def checked(self, given: Any) -> Namespace:
        """Return a namespace after checking that no label contains an unfilled key.

        Such a label would be one namespace for all users.
        """
        named = namespace_of(path_of(given))
        if named != self.template and any(map(_KEY.search, named)):
            fills = self._narrowing if self.keys else "AgentMemory(url, namespace=…), whose runs and within(…) fill it"
            raise InvalidInput(f"{safe_repr(named)} has a key that nothing fills: write whose it is, or use {fills}.")
        return named

    def _inside(self, given: Any) -> Namespace:
        """Return a given namespace after checking that it lies inside `within`."""
        named, within = namespace_of(path_of(given)), self.within or ()
        if named == self.template and self.keys:
            raise InvalidInput(f"{safe_repr(named)} is the template itself: say whose memory with {self._narrowing}.")
        if named[: len(within)] != within:
            raise InvalidInput(f"The namespace {safe_repr(named)} is not within {safe_repr(within)}.")
        return named

    @property
    def _narrowing(self) -> str:
        """The call that fills the template manually, for error messages."""
        return f"memory.within({', '.join(f'{key}=…' for key in self.keys)})"

    def keys_of(self, path: str) -> dict[str, str]:
        """Return the template keys that lead to a stored namespace, for use in a config.

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
    """Create scopes after checking the options for namespaces.

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
    """Return the value of a template key from the config, the context or the server's user."""
    context = getattr(configurable.get("__pregel_runtime"), "context", None)
    inside = context.get(key) if isinstance(context, Mapping) else getattr(context, key, None)
    known = configurable.get("langgraph_auth_user_id") if key == "user_id" else None
    found = [value for value in (configurable.get(key), inside, known) if value is not None]
    values = [id_of(value, key) for value in found]
    if len(set(values)) > 1:
        raise InvalidInput(f"The config, its context and the server do not agree on {key}: {', '.join(values)}.")
    return values[0] if values else None


def config_given(config: C) -> C:
    """Return a caller's config, or None, after checking it.

    Raises:
        InvalidInput: The argument is no config.
    """
    given: Any = config
    for names in (configurable_of(config), given or ()):
        if not set(map(type, names)) <= {str} and not all(isinstance(name, str) for name in names):
            raise InvalidInput(f"A config is a dictionary such as {EXAMPLE}, not {safe_repr(config)}.")
    return config


def configurable_of(config: Any) -> Mapping[str, Any]:
    """Return the "configurable" part of a config: its thread, checkpoint and namespace.

    Args:
        config: A LangChain config, or None.

    Raises:
        InvalidInput: The argument is no config.
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
    """Return the config of the surrounding run, if any."""
    # Where LangChain was never loaded, nothing runs.
    runs = sys.modules.get("langchain_core.runnables.config")
    config: Mapping[str, Any] | None = runs.var_child_runnable_config.get() if runs else None
    return config
