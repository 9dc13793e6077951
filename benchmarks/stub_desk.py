"""What the stub decides and counts: which requests get which fault, and what was really sent."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from benchmarks.stub_faults import USUAL, Answer
from benchmarks.stub_replies import CHARACTERS_A_TOKEN, Prompt

OPENING = 4_000
"""Characters of a last message by which a kept prefix is found."""

STEP = 128
"""Kept prefixes are told in steps of so many tokens."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the stub behaves.

    Args:
        latency: seconds to every answer.
        jitter: seconds added at most, evenly spread.
        faults: the share of requests that get a fault.
        faults_of: the kinds of faults, evenly drawn.
        seed: decides which requests get which.
        max_in_flight: requests at a time above which 429 is answered; 0 for no limit.
        stall: seconds for which a stalled answer is held open.
        drip: seconds over which a dripping body comes.
        prefix_cache: whether to tell cached tokens.
    """

    latency: float = 0.0
    jitter: float = 0.0
    faults: float = 0.0
    faults_of: tuple[str, ...] = USUAL
    seed: int = 0
    max_in_flight: int = 0
    stall: float = 30.0
    drip: float = 2.0
    prefix_cache: bool = False

    def options(self) -> list[str]:
        """The command line that gives these settings."""
        given = {**asdict(self), "faults_of": ",".join(self.faults_of)}
        flag = ["--prefix-cache"] if given.pop("prefix_cache") else []
        return [f"--{name.replace('_', '-')}={value}" for name, value in given.items()] + flag


@dataclass(slots=True)
class Tally:
    """What was asked and sent since the last reset."""

    requests: int = 0
    completed: int = 0
    again: int = 0
    cut: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    attempts: dict[str, int] = field(default_factory=dict)
    completions: dict[str, int] = field(default_factory=dict)
    openings: dict[str, str] = field(default_factory=dict)
    processor: float = field(default_factory=time.process_time)

    def told(self, *, bodies: bool) -> dict[str, Any]:
        counts = {
            name: getattr(self, name)
            for name in (one.name for one in fields(self))
            if name not in ("attempts", "completions", "openings", "processor")
        }
        often = self.completions.values()
        return {
            **counts,
            "faults": dict(self.faults),
            "distinct": len(self.attempts),
            "repeated": sum(number > 1 for number in often),
            "repeats": sum(often) - len(often),
            "cpu_seconds": time.process_time() - self.processor,
            **({"bodies": self.completions} if bodies else {}),
        }


class Desk:
    """Takes requests, decides their answers, and counts what was really sent."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.tally = Tally()
        self.pause_after: float = math.inf
        self.paused: list[Callable[[], None]] = []

    def resume(self) -> list[Callable[[], None]]:
        """Pause no more; what gives the answers that were waiting."""
        paused, self.paused = self.paused, []
        self.pause_after = math.inf
        return paused

    def take(self, prompt: Prompt) -> tuple[str, float]:
        """The kind of fault that a request gets, empty for none, and the seconds to its answer."""
        settings, tally = self.settings, self.tally
        attempt = tally.attempts[prompt.key] = tally.attempts.get(prompt.key, 0) + 1
        tally.requests += 1
        tally.again += prompt.key in tally.completions
        tally.in_flight += 1
        tally.max_in_flight = max(tally.max_in_flight, tally.in_flight)
        kind, wait = "", settings.latency
        if settings.faults or settings.jitter:
            drawn = random.Random(f"{settings.seed} {prompt.key} {attempt}")
            wait += settings.jitter * drawn.random()
            if drawn.random() < settings.faults:
                kind = drawn.choice(settings.faults_of)
        if settings.max_in_flight and tally.in_flight > settings.max_in_flight:
            kind, wait = "overload", 0.0
        if kind:
            tally.faults[kind] += 1
        return kind, wait

    def cached(self, prompt: Prompt) -> int:
        """Tokens of the prompt that an earlier, finished one shares from the start."""
        last = prompt.texts[-1] if prompt.texts else ""
        known = self.tally.openings.get(last[:OPENING])
        if not self.settings.prefix_cache or known is None:
            return 0
        low, high = 0, min(len(known), len(last))
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if last[:middle] == known[:middle] else (low, middle - 1)
        return low // CHARACTERS_A_TOKEN // STEP * STEP

    def sent(self, prompt: Prompt, answer: Answer) -> None:
        """Count an answer that was handed over whole."""
        tally = self.tally
        tally.prompt_tokens += answer.usage[0]
        tally.completion_tokens += answer.usage[1]
        tally.cached_tokens += answer.usage[2]
        if answer.usable:
            tally.completed += 1
            tally.completions[prompt.key] = tally.completions.get(prompt.key, 0) + 1
            if self.settings.prefix_cache and prompt.texts:
                tally.openings.setdefault(prompt.texts[-1][:OPENING], prompt.texts[-1])
