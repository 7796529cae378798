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

EXAMPLE_CONFIG = '{"configurable": {"thread_id": "…"}}'
"""A config, as errors show one."""

MAX_LABEL_CHARS = 200
MAX_PATH_BYTES = 2_000
MAX_ID_CHARS = 500

_OWN_PREFIX = "agentmem_"
_TEMPLATE_KEY = re.compile(r"\{([^\W\d]\w*)\}")
_LABEL_END = NESTED_SEPARATOR = "\x1f"
_AFTER_END = "\x20"
_AFTER_ALL = "\U0010ffff" * (MAX_LABEL_CHARS + 1)  # behind every path, that of the last label of all included
_CONTROL_CHARS = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def path_of(namespace: Any) -> str:
    """Return the stored form of a namespace.

    Args:
        namespace: A tuple or list of labels; empty for the root.

    Raises:
        InvalidInput: The namespace is not a tuple of usable labels.
    """
    if isinstance(namespace, str):
        suggestion = safe_repr(tuple(filter(None, namespace.split("/"))) or (namespace,))
        raise InvalidInput(f"A namespace is a tuple of strings: write {suggestion} instead of {safe_repr(namespace)}.")
    if not isinstance(namespace, tuple | list):
        raise InvalidInput(f"A namespace is a tuple of strings, not {type(namespace).__name__}.")
    for label in namespace:
        if not isinstance(label, str) or not label or len(label) > MAX_LABEL_CHARS or _CONTROL_CHARS.search(label):
            raise InvalidInput(
                f"The label {safe_repr(label)} cannot be part of a namespace: labels are strings of 1 to "
                f"{MAX_LABEL_CHARS} characters without control characters."
            )
    path = "".join(label + _LABEL_END for label in namespace)
    if (size := len(path.encode())) > MAX_PATH_BYTES:
        raise InvalidInput(f"A namespace may have {MAX_PATH_BYTES} bytes in all; this one has {size}.")
    return path


def namespace_of(path: str) -> Namespace:
    """Return the namespace of a stored path."""
    return tuple(path.split(_LABEL_END)[:-1])


def parse_namespace(path: str | None) -> Namespace:
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


def format_namespace(namespace: Namespace, *more: str) -> str:
    """Write a namespace and optional further labels in the form of `parse_namespace`."""
    return "/".join(label.replace("%", "%25").replace("/", "%2F") for label in (*namespace, *more)) or "/"


def nested_conversation(thread: str, ns: str) -> str:
    """Return the conversation id of a nested graph.

    It consists of the thread's id, U+001F, and the graph's namespace.

    Args:
        thread: The thread's id.
        ns: The "checkpoint_ns" of the graph; one that is too long to be part of an id is replaced by its digest.
    """
    return (
        f"{thread}{_LABEL_END}{ns if len(ns) <= MAX_LABEL_CHARS else blake2b(ns.encode(), digest_size=20).hexdigest()}"
    )


def nested_range(thread: str) -> tuple[str, str]:
    """Return the id range of the conversations of a thread's nested graphs.

    It begins with the first id, and excludes the second.
    """
    return thread + _LABEL_END, thread + _AFTER_END


def is_nested(conversation: str) -> bool:
    """Return whether an id is that of a nested graph's conversation."""
    return _LABEL_END in conversation


def outer_thread(conversation: str) -> str:
    """Return the id of the thread that a nested graph's conversation belongs to.

    Any other id is returned unchanged.
    """
    return conversation.partition(_LABEL_END)[0] or conversation


def label_pattern(label: str) -> tuple[str, str]:
    """Return a prefix for a path, and the text that shows the label in the prefixed path."""
    return _LABEL_END, f"{_LABEL_END}{label}{_LABEL_END}"


def path_range(namespace: Any) -> tuple[str, str]:
    """Return the path range of a namespace and all below it; the second path is excluded."""
    path = path_of(namespace)
    return (path, path[:-1] + _AFTER_END) if path else ("", _AFTER_ALL)


def check_id(value: Any, kind: str, error: type[InvalidInput] = InvalidInput) -> str:
    """Check an id given by a user.

    Args:
        value: A string; whole numbers and UUIDs are written as one.
        kind: What it names, for the error.
        error: The error to raise.

    Raises:
        InvalidInput: It is empty, too long, or has control characters.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    text = value if isinstance(value, str) else str(value) if is_number or isinstance(value, UUID) else ""
    parts = text.split(_LABEL_END, 1) if kind == "conversation" else [text]  # that of a nested graph has two
    if not all(part and len(part) <= MAX_ID_CHARS and not _CONTROL_CHARS.search(part) for part in parts):
        description = (
            f"the {kind}" if kind.endswith("_id") else f"the id of {'an' if kind[:1] in 'aeiou' else 'a'} {kind}"
        )
        raise error(
            f"{safe_repr(value)} cannot be {description}: ids are strings of 1 to {MAX_ID_CHARS} characters without "
            "control characters."
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
        thread_id = super().__new__(cls, value)
        thread_id.namespace = namespace
        return thread_id

    def __reduce__(self) -> tuple[Any, ...]:
        return ThreadId, (str(self), self.namespace)


class Scopes(NamedTuple):
    """The rules that select the namespace of a call, whose threads share memory.

    Attributes:
        template: Labels with keys of the config in braces, such as `("users", "{user_id}")`; empty for one scope
            for all. Default: none, and a config names its namespace itself.
        bare_threads: Accept a config without the keys if only one thread has its id. Default: False.
        retains_deleted: Keep a deleted thread's contributions to its scope. Default: True.
        boundary: The namespace that no call may leave. Default: none.
        find_home: Returns the namespace of the thread that a run loaded, if the config lacks the keys. Default: the
            root.
    """

    template: Namespace | None = None
    bare_threads: bool = False
    retains_deleted: bool = True
    boundary: Namespace | None = None
    find_home: Callable[[Mapping[str, Any]], Namespace] = lambda _: ()

    def is_shared(self, path: str) -> bool:
        """Return whether the threads of a namespace share memory.

        In the root, they do so only with an empty template.
        """
        return bool(path) or self.template == ()

    def narrow(self, namespace: Any, keys: Mapping[str, Any]) -> Scopes:
        """Return these scopes limited to a namespace, which no call may leave.

        Args:
            namespace: The namespace; None if `keys` select it.
            keys: The values of the template's keys.

        Raises:
            InvalidInput: The namespace is not a tuple of usable labels, or lies outside of `boundary`; or neither or
                both are given.
        """
        if (namespace is None) == (not keys):
            raise InvalidInput('Name one namespace: within(("users", "ada")), or a template\'s key, user_id="ada".')
        if namespace is not None:
            return self._replace(boundary=self._check_inside(self.check_namespace(namespace)))
        if unknown := set(keys) - set(self.keys):
            missing = ", ".join(map(safe_repr, sorted(unknown)))
            raise InvalidInput(
                f"The template of this memory, {safe_repr(self.template)}, has no key {missing}: name the namespace "
                'itself, within(("users", "ada")), or open the memory with namespace=("users", "{user_id}").'
            )
        return self._replace(
            boundary=self._check_inside(self.fill_template({key: check_id(keys[key], key) for key in keys}))
        )

    def resolve(self, namespace: Any, config: Any = None, *, optional: bool = False) -> Namespace:
        """Return the namespace that a call uses: the given one, else that of its run.

        Args:
            namespace: The caller's namespace; None or an empty tuple for none.
            config: The run's config. Default: the config of the surrounding run.
            optional: Require no namespace outside of runs: the root then stands for every namespace. A namespace with a
                key in braces as a label, which an earlier version could create, is accepted as well.

        Raises:
            InvalidInput: The namespace is not a tuple of usable labels, lies outside of `boundary`, or has an unfilled
                key; or the config lacks a key of the template, or names another namespace than the template.
        """
        if namespace is not None and not (isinstance(namespace, tuple | list) and not namespace):
            return self._check_inside(namespace if optional else self.check_namespace(namespace))
        if self.boundary is not None:
            configured = self.config_namespace(config)
            if configured is not None and configured != self.boundary:
                raise InvalidInput(
                    f"The config leads to {safe_repr(configured)}; this is the memory of {safe_repr(self.boundary)}."
                )
            return self.boundary
        config = config if config is not None else running_config()
        configured = self.config_namespace(config)
        if configured or (configured is not None and self.template is not None):
            return configured
        configurable = configurable_of(config)
        if self.template is None:  # () stands for the only thread of its id, as a config that says nothing does
            return self.find_home(configurable)
        missing = [key for key in self.keys if _key_value(key, configurable) is None]
        names_nobody = len(missing) == len(self.keys)  # who names a part of the keys means somebody
        may_read_all = optional and running_config() is None  # a run is somebody's
        if names_nobody and (may_read_all or (self.bare_threads and "thread_id" in configurable)):
            return self.find_home(configurable)
        example = ", ".join(f'"{key}": "…"' for key in missing)
        hint = "" if namespace is None else " () names nobody; a search looks everywhere with everything=True."
        raise InvalidInput(
            f"The namespace {safe_repr(self.template)} needs {', '.join(missing)}: say it in the run's config, "
            f'{{"configurable": {{{example}}}}}, and outside of runs with {self._within_call}.{hint}'
        )

    @property
    def without_template(self) -> Scopes:
        """The scopes for configs of other packages' checkpointers, without a template."""
        return Scopes(boundary=self.boundary)

    def config_namespace(self, config: Any) -> Namespace | None:
        """Return the namespace that a config itself names, or None.

        A config names it directly or by the keys of the template.

        A run whose graph has a checkpointer of `boundary` uses that checkpointer's namespace.

        Args:
            config: The config; None names no namespace.

        Raises:
            InvalidInput: `config` is no config, names two namespaces, or has an unknown key with the package's prefix.
        """
        configurable = configurable_of(config)
        for key in configurable:
            if isinstance(key, str) and key.startswith(_OWN_PREFIX) and key != CONFIG_KEY:
                raise InvalidInput(f"A config has no key {safe_repr(key)}; {CONFIG_KEY} names a namespace.")
        namespace = configurable.get(CONFIG_KEY)
        path = path_of(namespace) if CONFIG_KEY in configurable else None
        thread_namespace = getattr(configurable.get("thread_id"), "namespace", None)  # a text from outside has none
        thread_namespace = thread_namespace or self._graph_namespace(configurable)
        if self.template is None:
            return thread_namespace if path is None else namespace_of(path)
        values = {key: _key_value(key, configurable) for key in self.keys}
        if None in values.values():
            given_keys = {key: value for key, value in values.items() if value is not None}
            home_path = (
                path if path is not None or self.boundary is None else path_of(self.boundary[: len(self.template)])
            )
            if given_keys and home_path is not None and not given_keys.items() <= self.keys_of(home_path).items():
                raise InvalidInput(
                    f"The config says {safe_repr(given_keys)}, which does not lead to "
                    f"{safe_repr(namespace_of(home_path))}."
                )
            # What a saver returned carries the name beside the keys; alone it counts where an id alone would do.
            name_suffices = self.bare_threads or self.boundary is not None
            return (
                namespace_of(path)
                if name_suffices and path is not None
                else None
                if given_keys
                else thread_namespace or None
            )
        from_keys = self.fill_template({key: value or "" for key, value in values.items()})
        if path is not None and path_of(from_keys) != path:
            raise InvalidInput(
                f"The config names the namespace {safe_repr(namespace)}, and its keys lead to {safe_repr(from_keys)}."
            )
        return from_keys

    def _graph_namespace(self, configurable: Mapping[str, Any]) -> Namespace | None:
        """Return the namespace that the running graph's checkpointer of this memory is limited to."""
        scopes = getattr(getattr(configurable.get("__pregel_checkpointer"), "database", None), "scopes", None)
        return (
            scopes.boundary if isinstance(scopes, Scopes) and scopes._replace(boundary=self.boundary) == self else None
        )

    def check_unambiguous(self, paths: Collection[str], name: str, remedy: str) -> None:
        """Check that a thread id is unambiguous, if threads belong to users.

        Args:
            paths: The paths of the namespaces that have one of this id.
            name: The id.
            remedy: The remedy, for the error.

        Raises:
            InvalidInput: Several namespaces have a thread of this id, and none is specified.
        """
        if self.template and self.boundary is None and len(paths) > 1:
            examples = ", ".join(safe_repr(namespace_of(path)) for path in sorted(paths)[:3])
            raise InvalidInput(f"There is a thread {safe_repr(name)} in several namespaces ({examples}, …): {remedy}.")

    def is_run_allowed(self) -> bool:
        """Return whether the surrounding run, if any, may use this memory's namespace."""
        running = running_config()
        return running is not None and (
            self.boundary is None or self.config_namespace(running) in (None, self.boundary)
        )

    def check_new(self, path: str, name: str) -> None:
        """Check that a thread may begin: its config must have the keys of the template.

        Args:
            path: The path of the thread's namespace.
            name: The thread's id.

        Raises:
            InvalidInput: The thread may not begin.
        """
        if self.template is None:
            self.check_namespace(namespace_of(path))
        if not path and self.keys:
            raise InvalidInput(
                f"There is no thread {safe_repr(name)} yet, and a new one needs {', '.join(self.keys)} in the config."
            )

    @property
    def keys(self) -> list[str]:
        """The keys of the template."""
        return [key for label in self.template or () for key in _TEMPLATE_KEY.findall(label)]

    def fill_template(self, values: Mapping[str, str]) -> Namespace:
        """Return the template, filled with values of its keys."""
        labels = tuple(_TEMPLATE_KEY.sub(lambda key: values[key[1]], label) for label in self.template or ())
        return namespace_of(path_of(labels))

    def check_namespace(self, value: Any) -> Namespace:
        """Return a namespace after checking that no label contains an unfilled key.

        Such a label would be one namespace for all users.
        """
        namespace = namespace_of(path_of(value))
        if namespace != self.template and any(map(_TEMPLATE_KEY.search, namespace)):
            remedy = (
                self._within_call if self.keys else "AgentMemory(url, namespace=…), whose runs and within(…) fill it"
            )
            raise InvalidInput(
                f"{safe_repr(namespace)} has a key that nothing fills: write whose it is, or use {remedy}."
            )
        return namespace

    def _check_inside(self, value: Any) -> Namespace:
        """Return a given namespace after checking that it lies inside `boundary`."""
        namespace, boundary = namespace_of(path_of(value)), self.boundary or ()
        if namespace == self.template and self.keys:
            raise InvalidInput(
                f"{safe_repr(namespace)} is the template itself: say whose memory with {self._within_call}."
            )
        if namespace[: len(boundary)] != boundary:
            raise InvalidInput(f"The namespace {safe_repr(namespace)} is not within {safe_repr(boundary)}.")
        return namespace

    @property
    def _within_call(self) -> str:
        """The call that fills the template manually, for error messages."""
        return f"memory.within({', '.join(f'{key}=…' for key in self.keys)})"

    def keys_of(self, path: str) -> dict[str, str]:
        """Return the template keys that lead to a stored namespace, for use in a config.

        Args:
            path: The path of the namespace.
        """
        labels, values = namespace_of(path), {}
        if self.template is None or len(labels) != len(self.template):
            return {}
        for label, template_label in zip(labels, self.template, strict=True):
            parts = _TEMPLATE_KEY.split(template_label)  # text and keys by turns
            pattern = "".join(f"(?P<{part}>.+)" if index % 2 else re.escape(part) for index, part in enumerate(parts))
            match = re.fullmatch(pattern, label, re.DOTALL)
            if match is None:
                return {}
            values.update(match.groupdict())
        return values


def parse_scopes(template: Any, *, bare_threads: Any = False, on_thread_delete: Any = "keep") -> Scopes:
    """Create scopes after checking the options for namespaces.

    Raises:
        InvalidInput: The template is no tuple of labels, or has braces that hold no name.
    """
    if template is not None:
        path_of(template)
        for label in template:
            if re.search(r"[{}]", _TEMPLATE_KEY.sub("", label)):
                raise InvalidInput(f'The label {safe_repr(label)} has braces that hold no key, as "{{user_id}}" does.')
            if len(_TEMPLATE_KEY.findall(label)) > 1:  # "a-b" and "c" would lead where "a" and "b-c" do
                raise InvalidInput(f"The label {safe_repr(label)} has several keys: give each a label of its own.")
    check_flag("bare_threads", bare_threads)
    check_value(Literal["keep", "forget"], on_thread_delete, "on_thread_delete")
    return Scopes(None if template is None else tuple(template), bare_threads, on_thread_delete == "keep")


def _key_value(key: str, configurable: Mapping[str, Any]) -> str | None:
    """Return the value of a template key from the config, the context or the server's user."""
    context = getattr(configurable.get("__pregel_runtime"), "context", None)
    from_context = context.get(key) if isinstance(context, Mapping) else getattr(context, key, None)
    server_user = configurable.get("langgraph_auth_user_id") if key == "user_id" else None
    candidates = [value for value in (configurable.get(key), from_context, server_user) if value is not None]
    values = [check_id(value, key) for value in candidates]
    if len(set(values)) > 1:
        raise InvalidInput(f"The config, its context and the server do not agree on {key}: {', '.join(values)}.")
    return values[0] if values else None


def check_config(config: C) -> C:
    """Return a caller's config, or None, after checking it.

    Raises:
        InvalidInput: The argument is no config.
    """
    given: Any = config
    for names in (configurable_of(config), given or ()):
        if not set(map(type, names)) <= {str} and not all(isinstance(name, str) for name in names):
            raise InvalidInput(f"A config is a dictionary such as {EXAMPLE_CONFIG}, not {safe_repr(config)}.")
    return config


def configurable_of(config: Any) -> Mapping[str, Any]:
    """Return the "configurable" part of a config: its thread, checkpoint and namespace.

    Args:
        config: A LangChain config, or None.

    Raises:
        InvalidInput: The argument is no config.
    """
    configurable = config.get("configurable") if isinstance(config, Mapping) else config
    if configurable is None:
        if config is not None and "thread_id" in config:
            raise InvalidInput(f"The thread_id of a config stands within configurable: {EXAMPLE_CONFIG}.")
        return {}
    if not isinstance(configurable, Mapping):
        raise InvalidInput(f"A config is a dictionary such as {EXAMPLE_CONFIG}, not {safe_repr(config)}.")
    return configurable


def running_config() -> Mapping[str, Any] | None:
    """Return the config of the surrounding run, if any."""
    # Where LangChain was never loaded, nothing runs.
    module = sys.modules.get("langchain_core.runnables.config")
    config: Mapping[str, Any] | None = module.var_child_runnable_config.get() if module else None
    return config
