"""A long body as several functions that run one after the other: LLVM's time for a function grows faster than its length.

A body may be split where an operation of the Program ends. What a part defines and a later one reads travels through a
frame on the stack of the body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gradsmith.backends.native.emit import Line

#: lines of a body that is split, and of its parts
LONG = 1200
PART = 400

#: the line at which a part has run
END = "  ret i64 0"

_ATTRIBUTES = re.compile(r" (?:noalias|readonly)\b")
_LABEL = re.compile(r"label %([\w.]+)")
_REGISTER = re.compile(r"%v\d+\b")
_ARGUMENT = re.compile(r"%(?:a\d+(?:\.\d+)?|ctx|out|slots|buffers|frame)(?![\w.])")
_DEFINITION = re.compile(r"  (%v\d+) = (.*)")
_TYPE = r"(<[^>]*>|\{[^}]*\}|\w+)"
_FLAGS = r"(?:(?:nsw|nuw|exact|disjoint|volatile|fast|nnan|ninf|nsz|arcp|contract|afn|reassoc) )*"
#: the type of what an instruction gives, by its form; tried in this order
_FORMS = [
    (re.compile(r"getelementptr "), "ptr"),
    (re.compile(rf"[if]cmp {_FLAGS}\w+ \w+ "), "i1"),
    (re.compile(rf"(?:tail )?call .*?{_TYPE} @"), ""),
    (re.compile(rf"\w+ {_FLAGS}{_TYPE} \S+ to {_TYPE}$"), ""),
    (re.compile(rf"select {_FLAGS}(?:i1|<[^>]*>) \S+, {_TYPE} "), ""),
    (re.compile(rf"insertelement {_TYPE} "), ""),
    (re.compile(rf"extractelement <\d+ x {_TYPE}>"), ""),
    (
        re.compile(
            rf"(?:load|phi|fneg|freeze|[fsu]?(?:add|sub|mul|div|rem)|and|or|xor|shl|lshr|ashr) {_FLAGS}{_TYPE}[ ,]"
        ),
        "",
    ),
]


@dataclass
class Part:
    """Some consecutive lines; ``label``: the block that they begin in."""

    label: str
    lines: list[str]
    defined: dict[str, str] = field(default_factory=dict)  # registers, and how
    used: dict[str, None] = field(default_factory=dict)


def result_type(instruction: str) -> str:
    """The type of what ``instruction`` gives, '' if its form is not known here."""
    for form, type in _FORMS:
        if found := form.match(instruction):
            return type or found.groups()[-1]
    return ""


def split(lines: Sequence[Line], marks: Sequence[tuple[int, str]]) -> list[tuple[str, list[Line]]]:
    """``lines`` cut at some of ``marks``, with the label of the block that each part begins in."""
    cuts = [(0, "start")]
    if len(lines) > LONG:
        for position, label in marks:
            if position - cuts[-1][0] >= PART and len(lines) - position >= PART // 2:
                cuts.append((position, label))
    ends = [position for position, _ in cuts[1:]] + [len(lines)]
    return [(label, list(lines[start:end])) for (start, label), end in zip(cuts, ends, strict=True)]


def targets(lines: Iterable[Line]) -> set[str]:
    """The labels that ``lines`` jump to."""
    return {label for line in lines if isinstance(line, str) for label in _LABEL.findall(line)}


def functions(parts: Sequence[Part], parameters: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]] | None:
    """The functions that ``parts`` become, and the lines of a body that calls them; None if they do not separate."""
    origin: dict[str, tuple[int, str]] = {}
    for k, part in enumerate(parts):
        _read(part)
        origin.update((register, (k, text)) for register, text in part.defined.items())
    frame: dict[str, tuple[int, str]] = {}  # the place and the type of each register that travels
    size = 0
    for register in dict.fromkeys(r for part in parts for r in part.used if r not in part.defined):
        type = result_type(origin[register][1])
        if not type or type.startswith("{"):
            return None
        frame[register] = size, type
        size += 2 if type.startswith("<") else 1
    out = [_function(k, part, frame, parameters) for k, part in enumerate(parts)]
    body = [f"  %frame = alloca [{size} x i64], align 16"] if size else []
    for k, (_, arguments) in enumerate(out):
        body += [
            f"  %code{k} = call i64 @part{k}({arguments})",
            f"  %fine{k} = icmp eq i64 %code{k}, 0",
            f"  br i1 %fine{k}, label %next{k}, label %early{k}, !prof !0",
            f"early{k}:",
            f"  ret i64 %code{k}",
            f"next{k}:",
        ]
    return [text for text, _ in out], [*body, END]


def _read(part: Part) -> None:
    """Note which registers a part defines and uses."""
    for line in part.lines:
        if found := _DEFINITION.match(line):
            part.defined[found[1]] = found[2]
            line = found[2]
        part.used.update(dict.fromkeys(_REGISTER.findall(line)))


def _function(
    k: int, part: Part, frame: dict[str, tuple[int, str]], parameters: Sequence[tuple[str, str]]
) -> tuple[str, str]:
    """The text of one part as a function, and the arguments of its call."""
    entering = [line for r in part.used if r not in part.defined for line in _access("load", k, r, *frame[r])]
    leaving = [line for r in part.defined if r in frame for line in _access("store", k, r, *frame[r])]
    end = part.lines.index(END)
    lines = [*entering, *part.lines[:end], *leaving, *part.lines[end:]]
    names = set(_ARGUMENT.findall("\n".join(lines)))
    needed = [(type, name) for type, name in parameters if name in names]
    declared = ", ".join(f"{type} {name}" for type, name in needed)
    given = ", ".join(f"{_ATTRIBUTES.sub('', type)} {name}" for type, name in needed)
    text = "\n".join(lines)
    return f"define internal i64 @part{k}({declared}) noinline {{\n{part.label}:\n{text}\n}}\n", given


def _access(kind: str, k: int, register: str, place: int, type: str) -> list[str]:
    """Read a register from the frame or write it there."""
    address = f"%{kind}.{register[1:]}"
    what = f"{register} = load {type}, ptr {address}" if kind == "load" else f"store {type} {register}, ptr {address}"
    return [f"  {address} = getelementptr inbounds i64, ptr %frame, i64 {place}", f"  {what}, align 8"]
