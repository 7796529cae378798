"""What `agentmem stats` prints: counts, sizes with bars, tokens, caches and the slowest operations, as plain text."""

from __future__ import annotations

from langchain_agentmem.cli.console import count
from langchain_agentmem.cli.screen import Screen
from langchain_agentmem.upkeep.database_report import Stats

WIDTH = 30
"""Characters of the longest bar."""


def print_stats(screen: Screen, stats: Stats, *, slowest: int) -> None:
    """Print statistics for a person to read.

    Args:
        screen: Where to.
        stats: What `memory.stats()` gave.
        slowest: How many operations to print.
    """
    for name, value in stats.items():
        if isinstance(value, int) and name not in {"bytes_estimated", "tokens_kept_out", "shortened_prompts"}:
            screen.line(f"{name:<15} {value:>15,}")
    _sizes(screen, stats)
    screen.heading("Tokens kept out of prompts")
    if stats["shortened_prompts"]:
        screen.line(f"  {stats['tokens_kept_out']:,} in {count(stats['shortened_prompts'], 'prompt')}")
    else:
        screen.line("  none yet: no compaction was used", "dim")
    _caches(screen, stats)
    _operations(screen, stats, slowest)


def _sizes(screen: Screen, stats: Stats) -> None:
    screen.heading("Bytes by part, estimated" if stats["bytes_estimated"] else "Bytes by part")
    parts = sorted(stats["bytes_by_part"].items(), key=lambda part: -part[1])
    most, every = max(parts[0][1], 1), max(sum(size for _, size in parts), 1)
    for name, size in parts:
        bar = "#" * round(WIDTH * size / most)
        screen.line(f"  {name:<15} {size:>15,} {size / every:>5.0%}  {bar}".rstrip())


def _caches(screen: Screen, stats: Stats) -> None:
    screen.heading("Caches")
    if not stats["caches"]:
        screen.line("  none was asked yet", "dim")
    longest = max(map(len, stats["caches"]), default=0)
    for name, asked in stats["caches"].items():
        calls = asked["hits"] + asked["misses"]
        rate = asked["hits"] / calls if calls else 0.0
        screen.line(f"  {name:<{longest}}  {rate:>5.0%}  {asked['hits']:,} of {calls:,}")


def _operations(screen: Screen, stats: Stats, slowest: int) -> None:
    screen.heading("Slowest operations, in milliseconds")
    shown = stats["operations"][:slowest]
    if not shown:
        screen.line("  none was measured yet", "dim")
        return
    longest = max(len(each["name"]) for each in shown)
    head = f"  {'':<{longest}} {'slowest':>12} {'mean':>12} {'total':>14} {'calls':>11} {'failed':>9}"
    screen.line(head, "dim")
    for each in shown:
        screen.line(
            f"  {each['name']:<{longest}} {each['slowest_ms']:>12,.1f} {each['mean_ms']:>12,.1f} "
            f"{each['total_ms']:>14,.1f} {each['calls']:>11,} {each['failures']:>9,}"
        )
    if left := len(stats["operations"]) - len(shown):
        screen.line(f"  and {left:,} more: --slowest {len(stats['operations'])}", "dim")
