"""Namespaces and ids: the names of tenants, users, topics and conversations.

A namespace is a tuple of labels. It is stored as a path: each label is followed by U+001F. In sorted order, the paths
of a namespace and of all namespaces below it are adjacent, so one index scan finds them. Labels must therefore not
contain control characters. Ids must not either, because they are also used in logs and URLs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar
from urllib.parse import unquote
from uuid import UUID

from langchain_agentmem.base.argument_checks import CONTROL_CHARS, check_flag, check_value
from langchain_agentmem.errors import InvalidInput, safe_repr

C = TypeVar("C")

Namespace: TypeAlias = tuple[str, ...]


class ThreadKey(NamedTuple):
    """The path of a namespace, and the id of a thread or conversation in it.

    Attributes:
        path: The path. In a lookup of a thread by its id, the empty path matches any namespace.
        name: The id.
    """

    path: str
    name: str


class RuntimeLike(Protocol):
    """A `Runtime` or `ToolRuntime` of LangGraph."""

    @property
    def stream_writer(self) -> Callable[[Any], None]:
        """The attribute that distinguishes a runtime from a config."""
        ...


ThreadLike: TypeAlias = Mapping[str, Any] | RuntimeLike
"""An object that specifies a thread: a config, or a runtime from LangGraph."""

CONFIG_KEY = "agentmem_namespace"
"""The key of `config["configurable"]` with the namespace of a run."""

EXAMPLE_CONFIG = '{"configurable": {"thread_id": "…"}}'
"""An example of a config for errors."""

MAX_LABEL_CHARS = 200
MAX_PATH_BYTES = 2_000
MAX_ID_CHARS = 500

_OWN_PREFIX = "agentmem_"  # of the keys that this package defines in a config
_TEMPLATE_KEY = re.compile(r"\{([^\W\d]\w*)\}")
_LABEL_END = NESTED_SEPARATOR = "\x1f"
"""The character after each label of a path. It also separates the two parts of a nested graph's conversation id."""
_RANGE_END = "\x20"  # the next code point: the exclusive end of a range of paths
_LAST_PATH = "\U0010ffff" * (MAX_LABEL_CHARS + 1)  # sorts after every path


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
        if not isinstance(label, str) or not label or len(label) > MAX_LABEL_CHARS or CONTROL_CHARS.search(label):
            raise InvalidInput(
                f"The label {safe_repr(label)} cannot be part of a namespace: labels are strings of 1 to "
                f"{MAX_LABEL_CHARS} characters without control characters."
            )
    path = "".join(label + _LABEL_END for label in namespace)
    if (size := len(path.encode())) > MAX_PATH_BYTES:
        raise InvalidInput(f"A namespace may have at most {MAX_PATH_BYTES} bytes; this one has {size}.")
    return path


def namespace_of(path: str) -> Namespace:
    """Return the namespace of a stored path."""
    return tuple(path.split(_LABEL_END)[:-1])


def parse_namespace(path: str | None) -> Namespace:
    """Parse a namespace written as "a/b". A slash within a label is written as "%2F".

    Args:
        path: The written namespace; "/" or None for the root.

    Raises:
        InvalidInput: A label is empty. An unset shell variable, for example, must not select the root.
    """
    if path is None or path == "/":
        return ()
    labels = path.split("/")
    if not all(labels):
        raise InvalidInput(
            f"Invalid namespace {safe_repr(path)}. Write labels separated by /, such as users/ada, or / for the root."
        )
    return tuple(map(unquote, labels))


def format_namespace(namespace: Namespace, *more: str) -> str:
    """Format a namespace, with optional further labels, as text that `parse_namespace` reads."""
    return "/".join(label.replace("%", "%25").replace("/", "%2F") for label in (*namespace, *more)) or "/"


def nested_conversation(thread: str, ns: str) -> str:
    """Return the conversation id of a nested graph.

    The conversation id consists of the thread's id, U+001F, and the graph's checkpoint namespace.

    Args:
        thread: The thread's id.
        ns: The checkpoint namespace of the graph. If it is too long for an id, its digest is used instead.
    """
    name = ns if len(ns) <= MAX_LABEL_CHARS else blake2b(ns.encode(), digest_size=20).hexdigest()
    return f"{thread}{_LABEL_END}{name}"


def nested_range(thread: str) -> tuple[str, str]:
    """Return the id range of the conversations of a thread's nested graphs.

    The second id is excluded.
    """
    return thread + _LABEL_END, thread + _RANGE_END


def is_nested(conversation: str) -> bool:
    """Return whether an id identifies the conversation of a nested graph."""
    return _LABEL_END in conversation


def outer_thread(conversation: str) -> str:
    """Return the id of the thread that a nested graph's conversation belongs to.

    Any other id is returned unchanged.
    """
    return conversation.partition(_LABEL_END)[0] or conversation


def label_pattern(label: str) -> tuple[str, str]:
    """Return (separator, text). A path has the label if separator + path contains text."""
    return _LABEL_END, f"{_LABEL_END}{label}{_LABEL_END}"


def path_range(namespace: Any) -> tuple[str, str]:
    """Return the path range of a namespace and all below it; the second path is excluded."""
    path = path_of(namespace)
    return (path, path[:-1] + _RANGE_END) if path else ("", _LAST_PATH)


def check_id(value: Any, kind: str, error: type[InvalidInput] = InvalidInput) -> str:
    """Check an id given by a user.

    Args:
        value: A string. Whole numbers and UUIDs are converted to strings.
        kind: The kind of object with the id, for the error.
        error: The class of the error.

    Raises:
        InvalidInput: The id is empty, too long, or has control characters.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    text = value if isinstance(value, str) else str(value) if is_number or isinstance(value, UUID) else ""
    parts = text.split(_LABEL_END, 1) if kind == "conversation" else [text]  # the id for a nested graph has two parts
    if not all(part and len(part) <= MAX_ID_CHARS and not CONTROL_CHARS.search(part) for part in parts):
        article = "an" if kind[:1] in "aeiou" else "a"
        label = f"the {kind}" if kind.endswith("_id") else f"the id of {article} {kind}"
        raise error(
            f"{safe_repr(value)} cannot be {label}: ids are strings of 1 to {MAX_ID_CHARS} characters without "
            "control characters."
        )
    return text


class ThreadId(str):
    """The id of a thread in a checkpointer's config, with the namespace of the thread.

    LangGraph copies only the id into the configs of subgraphs. The attribute keeps the namespace with the id.

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
    """The rules that select the namespace of a call. The threads of a namespace share memory.

    Attributes:
        template: Labels with keys of the config in braces, such as `("users", "{user_id}")`. An empty template is one
            scope for all threads. Default: None, so a config names its namespace itself.
        bare_threads: True to accept a config with only a `thread_id`, if only one namespace has a thread of that id.
            Default: False.
        retains_deleted: True to keep a deleted thread's contributions to its scope. Default: True.
        boundary: The namespace that no call may leave. Default: None.
        find_namespace: The function that returns the namespace of a thread whose config lacks the keys. It takes the
            "configurable" part of the config. Default: a function that returns the root.
    """

    template: Namespace | None = None
    bare_threads: bool = False
    retains_deleted: bool = True
    boundary: Namespace | None = None
    find_namespace: Callable[[Mapping[str, Any]], Namespace] = lambda _: ()

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
            raise InvalidInput('Pass either a namespace, within(("users", "ada")), or its keys, within(user_id="ada").')
        if namespace is not None:
            inner = self.check_namespace(namespace)
        elif unknown := sorted(set(keys) - set(self.keys)):
            raise InvalidInput(
                f"The template of this memory, {safe_repr(self.template)}, has no key "
                f'{", ".join(map(safe_repr, unknown))}. Pass the namespace itself, within(("users", "ada")), or open '
                'the memory with namespace=("users", "{user_id}").'
            )
        else:
            inner = self.fill_template({key: check_id(value, key) for key, value in keys.items()})
        return self._replace(boundary=self._check_inside(inner))

    def resolve(self, namespace: Any, config: Any = None, *, optional: bool = False) -> Namespace:
        """Return the namespace that a call uses: the given one, else its run's.

        Args:
            namespace: The caller's namespace; None or an empty tuple for none.
            config: The run's config. Default: the config of the surrounding run.
            optional: True for a call that may cover every namespace: outside of runs and without a namespace, it uses
                the root, which then stands for all. The given namespace may then also have labels with unfilled keys,
                as an earlier version could store them. Default: False.

        Raises:
            InvalidInput: The namespace is not a tuple of usable labels, lies outside of `boundary`, or has an unfilled
                key; or the config lacks a key of the template, or names another namespace than the template.
        """
        if namespace is not None and not (isinstance(namespace, tuple | list) and not namespace):  # neither None nor ()
            return self._check_inside(namespace if optional else self.check_namespace(namespace))
        if config is None and self.boundary is None:
            config = running_config()
        configured = self.config_namespace(config)
        if self.boundary is not None:
            if configured not in (None, self.boundary):
                own = safe_repr(self.boundary)
                raise InvalidInput(f"The config selects {safe_repr(configured)}, but this memory is limited to {own}.")
            return self.boundary
        if configured or (configured is not None and self.template is not None):
            return configured
        configurable = configurable_of(config)
        if self.template is None:  # an explicit () has the same meaning as no namespace
            return self.find_namespace(configurable)
        missing = [key for key in self.keys if _key_value(key, configurable) is None]
        may_read_all = optional and running_config() is None  # a run may read only its user's memory
        # A config with some of the keys belongs to a user, so it may not read all namespaces.
        if missing == self.keys and (may_read_all or (self.bare_threads and "thread_id" in configurable)):
            return self.find_namespace(configurable)
        example = ", ".join(f'"{key}": "…"' for key in missing)
        hint = "" if namespace is None else " To search all namespaces, pass everything=True."
        raise InvalidInput(
            f"Missing {', '.join(missing)} for namespace {safe_repr(self.template)}. In a run, pass "
            f'config={{"configurable": {{{example}}}}}; elsewhere, use {self._within_call}.{hint}'
        )

    @property
    def without_template(self) -> Scopes:
        """Scopes without a template, for configs of other packages' checkpointers."""
        return Scopes(boundary=self.boundary)

    def config_namespace(self, config: Any) -> Namespace | None:
        """Return the namespace that a config itself names, or None.

        A config names the namespace directly or by the keys of the template. Otherwise, the namespace of the config's
        `ThreadId` is used, else that of the graph's checkpointer if it was made with `within`.

        Args:
            config: The config; None names no namespace.

        Raises:
            InvalidInput: `config` is not a config, names two namespaces, or has an unknown key with the prefix of the
                package.
        """
        configurable = configurable_of(config)
        for key in configurable:
            if isinstance(key, str) and key.startswith(_OWN_PREFIX) and key != CONFIG_KEY:
                raise InvalidInput(f"Unknown config key {safe_repr(key)}. To select a namespace, use {CONFIG_KEY}.")
        namespace = configurable.get(CONFIG_KEY)
        path = path_of(namespace) if CONFIG_KEY in configurable else None
        thread_namespace = getattr(configurable.get("thread_id"), "namespace", None)  # a plain str has none
        thread_namespace = thread_namespace or self._graph_namespace(configurable)
        if self.template is None:
            return thread_namespace if path is None else namespace_of(path)
        values = {key: _key_value(key, configurable) for key in self.keys}
        if None in values.values():
            present = {key: value for key, value in values.items() if value is not None}
            named = path_of(self.boundary[: len(self.template)]) if path is None and self.boundary is not None else path
            if present and named is not None and not present.items() <= self.keys_of(named).items():
                selected = safe_repr(namespace_of(named))
                raise InvalidInput(f"The keys {safe_repr(present)} of the config do not select {selected}.")
            # The checkpointer's configs contain the namespace and all keys. A config with the namespace but without all
            # keys is accepted only where a thread id alone is accepted: with `bare_threads`, or within a boundary.
            if path is not None and (self.bare_threads or self.boundary is not None):
                return namespace_of(path)
            return None if present else thread_namespace or None
        from_keys = self.fill_template({key: value or "" for key, value in values.items()})
        if path is not None and path_of(from_keys) != path:
            raise InvalidInput(f"The config names {safe_repr(namespace)}, but its keys select {safe_repr(from_keys)}.")
        return from_keys

    def _graph_namespace(self, configurable: Mapping[str, Any]) -> Namespace | None:
        """Return the boundary of the running graph's checkpointer, if it belongs to this memory."""
        scopes = getattr(getattr(configurable.get("__pregel_checkpointer"), "database", None), "scopes", None)
        if isinstance(scopes, Scopes) and scopes._replace(boundary=self.boundary) == self:
            return scopes.boundary
        return None

    def check_unambiguous(self, paths: Collection[str], name: str, remedy: str) -> None:
        """Check that a thread id is unambiguous, if the template has labels.

        Args:
            paths: The paths of the namespaces with a thread of this id.
            name: The thread's id.
            remedy: The instruction at the end of the error message, such as "pass namespace=".

        Raises:
            InvalidInput: Several namespaces have a thread of this id, and the scopes have no boundary.
        """
        if self.template and self.boundary is None and len(paths) > 1:
            examples = ", ".join(safe_repr(namespace_of(path)) for path in sorted(paths)[:3])
            raise InvalidInput(f"Thread {safe_repr(name)} exists in several namespaces ({examples}, …): {remedy}.")

    def is_run_allowed(self) -> bool:
        """Return whether there is a surrounding run, and it may use this memory's namespace."""
        run = running_config()
        return run is not None and (self.boundary is None or self.config_namespace(run) in (None, self.boundary))

    def check_new(self, path: str, name: str) -> None:
        """Check that a new thread may be created: its config must have the keys of the template.

        Args:
            path: The path of the thread's namespace.
            name: The thread's id.

        Raises:
            InvalidInput: A key is missing, or the namespace has an unfilled key.
        """
        if self.template is None:
            self.check_namespace(namespace_of(path))
        if not path and self.keys:
            raise InvalidInput(f"Missing {', '.join(self.keys)} in the config of the new thread {safe_repr(name)}.")

    @property
    def keys(self) -> list[str]:
        """The keys of the template."""
        return [key for label in self.template or () for key in _TEMPLATE_KEY.findall(label)]

    def fill_template(self, values: Mapping[str, str]) -> Namespace:
        """Return the template filled with the values of its keys."""
        labels = tuple(_TEMPLATE_KEY.sub(lambda match: values[match[1]], label) for label in self.template or ())
        return namespace_of(path_of(labels))

    def check_namespace(self, value: Any) -> Namespace:
        """Return a namespace after checking that no label contains an unfilled key.

        All users would share a namespace with an unfilled key.
        """
        namespace = namespace_of(path_of(value))
        if namespace != self.template and any(map(_TEMPLATE_KEY.search, namespace)):
            call = self._within_call if self.keys else "AgentMemory(url, namespace=…)"
            raise InvalidInput(f"{safe_repr(namespace)} has an unfilled key. Write its value, or use {call}.")
        return namespace

    def _check_inside(self, value: Any) -> Namespace:
        """Return a given namespace after checking that it lies inside `boundary`."""
        namespace, boundary = namespace_of(path_of(value)), self.boundary or ()
        if namespace == self.template and self.keys:
            raise InvalidInput(f"{safe_repr(namespace)} is the template. Fill its keys with {self._within_call}.")
        if namespace[: len(boundary)] != boundary:
            raise InvalidInput(f"The namespace {safe_repr(namespace)} is not within {safe_repr(boundary)}.")
        return namespace

    @property
    def _within_call(self) -> str:
        """The call that fills the template manually, for error messages."""
        return f"memory.within({', '.join(f'{key}=…' for key in self.keys)})"

    def keys_of(self, path: str) -> dict[str, str]:
        """Return the values of the template keys that select a stored namespace, for a config.

        Args:
            path: The path of the namespace.
        """
        labels, values = namespace_of(path), {}
        if self.template is None or len(labels) != len(self.template):
            return {}
        for label, template_label in zip(labels, self.template, strict=True):
            parts = _TEMPLATE_KEY.split(template_label)  # text and keys alternate
            pattern = "".join(f"(?P<{part}>.+)" if index % 2 else re.escape(part) for index, part in enumerate(parts))
            if (match := re.fullmatch(pattern, label, re.DOTALL)) is None:
                return {}
            values.update(match.groupdict())
        return values


def parse_scopes(template: Any, *, bare_threads: Any = False, on_thread_delete: Any = "keep") -> Scopes:
    """Create scopes after checking the options for namespaces.

    Raises:
        InvalidInput: The template is not a tuple of labels, or has braces without a valid key.
    """
    if template is not None:
        path_of(template)  # raises InvalidInput if the template is not a tuple of labels
        for label in template:
            if re.search(r"[{}]", _TEMPLATE_KEY.sub("", label)):
                raise InvalidInput(
                    f'The label {safe_repr(label)} has braces without a valid key such as "{{user_id}}".'
                )
            if len(_TEMPLATE_KEY.findall(label)) > 1:  # "{x}-{y}" is "a-b-c" for "a-b" and "c", and for "a" and "b-c"
                raise InvalidInput(f"The label {safe_repr(label)} has several keys. Use a separate label for each.")
    check_flag("bare_threads", bare_threads)
    check_value(Literal["keep", "forget"], on_thread_delete, "on_thread_delete")
    return Scopes(None if template is None else tuple(template), bare_threads, on_thread_delete == "keep")


def _key_value(key: str, configurable: Mapping[str, Any]) -> str | None:
    """Return the value of a template key, or None.

    The value is in the config or in the runtime's context, or is the authenticated user of a LangGraph server.
    """
    context = getattr(configurable.get("__pregel_runtime"), "context", None)
    from_context = context.get(key) if isinstance(context, Mapping) else getattr(context, key, None)
    server_user = configurable.get("langgraph_auth_user_id") if key == "user_id" else None
    candidates = [value for value in (configurable.get(key), from_context, server_user) if value is not None]
    values = [check_id(value, key) for value in candidates]
    if len(set(values)) > 1:
        raise InvalidInput(f"The config, its context and the server have different {key} values: {', '.join(values)}.")
    return values[0] if values else None


def check_config(config: C) -> C:
    """Check a caller's config, which may be None, and return it unchanged.

    Raises:
        InvalidInput: The argument is not a config.
    """
    top_level: Any = config
    for names in (configurable_of(config), top_level or ()):
        # Subclasses of str are rare, so the types are tested first, which is fast.
        if not set(map(type, names)) <= {str} and not all(isinstance(name, str) for name in names):
            raise InvalidInput(f"A config is a dictionary such as {EXAMPLE_CONFIG}, not {safe_repr(config)}.")
    return config


def configurable_of(config: Any) -> Mapping[str, Any]:
    """Return the "configurable" part of a config: its thread, checkpoint and namespace.

    Args:
        config: A LangChain config, or None.

    Raises:
        InvalidInput: The argument is not a config.
    """
    # Configs are dictionaries, so the type is tested first, which is fast.
    configurable = config.get("configurable") if type(config) is dict or isinstance(config, Mapping) else config
    if configurable is None:
        if config is not None and "thread_id" in config:
            raise InvalidInput(f"The thread_id of a config must be inside configurable: {EXAMPLE_CONFIG}.")
        return {}
    if type(configurable) is not dict and not isinstance(configurable, Mapping):
        raise InvalidInput(f"A config is a dictionary such as {EXAMPLE_CONFIG}, not {safe_repr(config)}.")
    return configurable


def running_config() -> Mapping[str, Any] | None:
    """Return the config of the surrounding run, if any."""
    # Without LangChain loaded, there is no run.
    module = sys.modules.get("langchain_core.runnables.config")
    config: Mapping[str, Any] | None = module.var_child_runnable_config.get() if module else None
    return config
