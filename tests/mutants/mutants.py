"""Which mutants there are: cosmic-ray's, of the code for storage, rewinding, compaction and scopes.

Left out is what changes nothing that the package does:

- annotations, which are never computed (`from __future__ import annotations`), what stands under `if TYPE_CHECKING:`,
  and functions that are `@overload`s;
- what an error or a log says: the arguments of a call that is raised, and of a call of `logger`;
- the bare `*` and `/` of a signature, which cosmic-ray takes for operators;
- what cosmic-ray cannot make, what Python cannot compile, and what it compiles to the same as the original.
"""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from random import Random
from types import CodeType
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent.parent
PACKAGE = "langchain_agentmem"
FOLDERS = {"storage": "storage", "rewinding": "rewinding", "compaction": "compaction", "scopes": "base/namespaces.py"}

Place = tuple[int, int]
"""A line, from one on, and a column, from zero on."""
UNCHANGED = {"name", "newline", "string", "endmarker", "fstring_string", "fstring_start", "fstring_end"}
"""What cosmic-ray never changes."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Mutant(NamedTuple):
    """One change of one module.

    Attributes:
        path: The module's file, from the root on.
        operator: cosmic-ray's name of what is changed into what.
        occurrence: The how manieth place in the module where it applies, from zero on.
        line: Where it is.
        column: Where it is on that line.
    """

    path: str
    operator: str
    occurrence: int
    line: int
    column: int

    @property
    def part(self) -> str:
        """What it is counted with."""
        path = self.path.removeprefix(f"{PACKAGE}/")
        return next(part for part, each in FOLDERS.items() if path == each or path.startswith(f"{each}/"))

    @property
    def module(self) -> str:
        """Its name."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def is_mutated(module: str) -> bool:
    """Whether a module is one of those that mutants are made of."""
    return f"{module.replace('.', '/')}.py" in paths() or f"{module.replace('.', '/')}/__init__.py" in paths()


@functools.cache
def paths() -> tuple[str, ...]:
    """The files that mutants are made of."""
    found: list[Path] = []
    for each in FOLDERS.values():
        at = ROOT / PACKAGE / each
        found += [at] if at.is_file() else sorted(at.rglob("*.py"))
    return tuple(str(path.relative_to(ROOT)) for path in found)


@functools.cache
def read(path: str) -> str:
    """The text of a file."""
    return (ROOT / path).read_text("utf-8")


def compiled(source: str, path: str) -> CodeType | None:
    """A module's code; None where it cannot be compiled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return compile(source, str(ROOT / path), "exec", dont_inherit=True)
        except SyntaxError:
            return None


@functools.cache
def original(path: str) -> CodeType:
    """The code of a module as it is."""
    code = compiled(read(path), path)
    assert code is not None
    return code


def sample(seed: int, count: int) -> tuple[dict[Mutant, str], int]:
    """So many mutants with the modules' texts as they change them, and how many there are to choose from."""
    every = [mutant for mutant, _ in _mutants(frozenset())]
    shuffled = Random(seed).sample(every, len(every))
    candidates = shuffled[: count + count // 4 + 20]
    texts = {mutant: text for mutant, text in _mutants(frozenset(candidates)) if text}
    living = [mutant for mutant in candidates if mutant in texts and _changes(mutant, texts[mutant])]
    return {mutant: texts[mutant] for mutant in living[:count]}, len(every)


def _changes(mutant: Mutant, text: str) -> bool:
    code = compiled(text, mutant.path)
    return code is not None and code != original(mutant.path)


def _mutants(wanted: Collection[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """All that are not left out for where they stand, in a fixed order; of those that are wanted, also the texts."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    operators = [(name, get_operator(name)) for name in sorted(operator_names())]
    made = [(name, operator()) for name, operator in operators if not operator.arguments()]
    for path in paths():
        names = {each.operator for each in wanted if each.path == path}
        if wanted and not names:
            continue
        sought = [each for each in made if not wanted or each[0] in names]
        skipped = left_out(read(path))
        counts = dict.fromkeys(dict(made), 0)
        tree = get_ast(read(path))
        for node in list(ast_nodes(tree)):
            if node.type in UNCHANGED:
                continue
            in_signature = node.type == "operator" and node.parent.type == "parameters"
            for name, operator in sought:
                for index, (begin, _) in enumerate(list(operator.mutation_positions(node))):
                    mutant = Mutant(path, name, counts[name], *begin)
                    counts[name] += 1
                    if not in_signature and not any(start <= begin < end for start, end in skipped):
                        yield mutant, _text(tree, node, operator, index) if mutant in wanted else ""


def _text(tree: Any, node: Any, operator: Any, index: int) -> str:
    """What stands in a module with a node of it changed; the tree is afterwards as it was."""
    from cosmic_ray.ast import ast_nodes

    around = node.parent
    kept = [(each, [*each.children]) for each in (around, *ast_nodes(node)) if hasattr(each, "children")]
    values = [(each, each.value) for each in ast_nodes(node) if hasattr(each, "value")]
    try:
        changed = operator.mutate(node, index)
        around.children = [changed if each is node else each for each in around.children]
        around.children = [each for each in around.children if each is not None]
        text: str = tree.get_code()
    except AttributeError:  # it takes the `a.B` of an `except` for a name
        return ""
    finally:
        for each, children in kept:
            each.children = children
        for each, value in values:
            each.value = value
    return text


def left_out(source: str) -> list[tuple[Place, Place]]:
    """From where to where what stands in a module changes nothing that it does."""
    lines = source.splitlines()

    def place(line: int, column: int) -> Place:  # Python counts bytes, parso characters
        return line, len(lines[line - 1].encode()[:column].decode())

    def range_of(node: ast.stmt | ast.expr) -> tuple[Place, Place]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)

    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list):
                    start = min(each.lineno for each in node.decorator_list)
                    found.append(((start, 0), range_of(node)[1]))
                found += [range_of(node.returns)] if node.returns is not None else []
            case ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation):
                found.append(range_of(annotation))
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                found.append(range_of(node))
            case (
                ast.Raise(exc=ast.Call(args=args, keywords=keywords))
                | ast.Call(func=ast.Attribute(value=ast.Name(id="logger")), args=args, keywords=keywords)
            ):
                found += [range_of(each) for each in (*args, *(each.value for each in keywords))]
    return found
