#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the manual page of wisp and completions for bash, fish and zsh, from what `wisp help` prints.

usage: write_manual.py WISP FOLDER

FOLDER gets wisp.1, wisp.bash, wisp.fish and _wisp.
"""

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

OPTION = re.compile(r"^  (?:-(\w), |    )--([\w-]+)(?: ([^ ]+))?(?: +(.*))?$")


@dataclass
class Option:
    letter: str
    name: str
    value: str
    help: list[str]

    @property
    def summary(self) -> str:
        """Its help up to the first remark or example."""
        return re.split(r"[:;(]| \(|, (?:as|which) ", " ".join(self.help))[0].strip()


@dataclass
class Command:
    name: str
    summary: str
    usage: list[str] = field(default_factory=list)
    about: list[str] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    end: list[str] = field(default_factory=list)


def help_of(wisp: str, *command: str) -> list[str]:
    run = subprocess.run([wisp, "help", *command], check=True, stdout=subprocess.PIPE, encoding="utf-8")
    return run.stdout.splitlines()


def lines_of(wisp: str, name: str) -> list[str]:
    """The help of a command, in which the options that --help-model lists follow its own."""
    lines = help_of(wisp, name)
    rows = [i for i, line in enumerate(lines) if line.startswith("      --help-model ")]
    if not rows:
        return lines
    more = subprocess.run([wisp, name, "--help-model"], check=True, stdout=subprocess.PIPE, encoding="utf-8")
    options = more.stdout.split("\n\n")[1].splitlines()
    return lines[: rows[0]] + options + lines[rows[0] :]


def read_command(wisp: str, name: str, summary: str) -> Command:
    command = Command(name, summary)
    part = command.usage
    for line in lines_of(wisp, name):
        found = OPTION.match(line)
        if found:
            letter, option, value, text = (each or "" for each in found.groups())
            command.options.append(Option(letter, option, value, [text] if text else []))
            part = command.options[-1].help
        elif line == "":
            part = command.end if command.options else command.about
            part.append("")
        elif part is command.usage:
            part.append(line.removeprefix("usage: ").strip())
        else:
            part.append(line.strip() if command.options and part is not command.end else line)
    return command


def read_commands(wisp: str) -> list[Command]:
    rows = (re.match(r"^  wisp ([a-z]+) +(.*)$", line) for line in help_of(wisp))
    return [read_command(wisp, row[1], row[2]) for row in rows if row]


# ---- the manual page ------------------------------------------------------------------------------


def escape(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def paragraphs(lines: list[str]) -> list[str]:
    """Lines that are indented keep their form."""
    out: list[str] = []
    for block in "\n".join(lines).split("\n\n"):
        rows = [row for row in block.split("\n") if row.strip()]
        if not rows:
            continue
        as_is = rows[-1].startswith(" ")
        out += [".PP", *([".nf"] if as_is else []), *map(escape, rows), *([".fi"] if as_is else [])]
    return out


def option_lines(option: Option) -> list[str]:
    names = [f"\\fB\\-{option.letter}\\fR"] if option.letter else []
    names.append(f"\\fB\\-\\-{escape(option.name)}\\fR" + (f" \\fI{escape(option.value)}\\fR" if option.value else ""))
    return [".TP", ", ".join(names), *map(escape, option.help)]


def manual(commands: list[Command], version: str) -> str:
    lines = [
        f'.TH WISP 1 "" "wisp {version}" "User commands"',
        ".SH NAME",
        "wisp \\- embed and generate text with sparse transformer models",
        ".SH SYNOPSIS",
        ".B wisp",
        "\\fICOMMAND\\fR [\\fIOPTION\\fR]...",
        ".SH COMMANDS",
    ]
    for command in commands:
        lines += [".TP", f".B {command.name}", escape(command.summary)]
    for command in commands:
        lines += [f".SH WISP {command.name.upper()}", ".nf", *map(escape, command.usage), ".fi"]
        lines += paragraphs(command.about)
        for option in command.options:
            lines += option_lines(option)
        lines += paragraphs(command.end)
    return "\n".join(lines) + "\n"


# ---- completions ----------------------------------------------------------------------------------


def bash(commands: list[Command]) -> str:
    names = " ".join(command.name for command in commands)
    cases = [
        f"    {command.name}) words='{' '.join('--' + option.name for option in command.options)}' ;;"
        for command in commands
    ]
    return "\n".join(
        [
            "# bash completion of wisp",
            "_wisp() {",
            "    local word=${COMP_WORDS[COMP_CWORD]} words=",
            "    COMPREPLY=()",
            "    if [ \"$COMP_CWORD\" = 1 ] || { [ \"$COMP_CWORD\" = 2 ] && [ \"${COMP_WORDS[1]}\" = help ]; }; then",
            f"        mapfile -t COMPREPLY < <(compgen -W '{names} help --version' -- \"$word\")",
            "        return",
            "    fi",
            '    case "${COMP_WORDS[1]}" in',
            *cases,
            "    esac",
            # Anything else is a file: complete -o default.
            '    case "$word" in -*) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word") ;; esac',
            "}",
            "complete -o default -F _wisp wisp",
            "",
        ]
    )


def quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def fish(commands: list[Command]) -> str:
    lines = ["# fish completion of wisp"]
    for command in commands:
        lines.append(f"complete -c wisp -n __fish_use_subcommand -f -a {command.name} -d {quote(command.summary)}")
    for command in commands:
        for option in command.options:
            letter = f" -s {option.letter}" if option.letter else ""
            value = " -r" if option.value else ""
            seen = f"'__fish_seen_subcommand_from {command.name}'"
            lines.append(f"complete -c wisp -n {seen}{letter} -l {option.name}{value} -d {quote(option.summary)}")
    return "\n".join(lines) + "\n"


def zsh(commands: list[Command]) -> str:
    def bare(text: str) -> str:
        return re.sub(r"[\[\]:']", "", text)

    lines = ["#compdef wisp", "local -a commands=("]
    lines += [f"    {quote(command.name + ':' + bare(command.summary))}" for command in commands]
    lines += [")", "if (( CURRENT == 2 )); then", "    _describe command commands", "    return", "fi"]
    lines += ["local command=$words[2]", "shift words; (( CURRENT-- ))", 'case "$command" in']
    for command in commands:
        lines.append(f"{command.name}) _arguments -S \\")
        for option in command.options:
            value = f":{bare(option.value)}:_files" if option.value else ""
            names = [f"-{option.letter}"] if option.letter else []
            for name in [*names, f"--{option.name}"]:
                lines.append(f"    {quote(f'*{name}[{bare(option.summary)}]{value}')} \\")
        lines.append("    '*:file:_files' ;;")
    return "\n".join([*lines, "esac", ""])


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    wisp, folder = sys.argv[1], Path(sys.argv[2])
    version = subprocess.run([wisp, "--version"], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout.split()[1]
    commands = read_commands(wisp)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "wisp.1").write_text(manual(commands, version), encoding="utf-8")
    (folder / "wisp.bash").write_text(bash(commands), encoding="utf-8")
    (folder / "wisp.fish").write_text(fish(commands), encoding="utf-8")
    (folder / "_wisp").write_text(zsh(commands), encoding="utf-8")


if __name__ == "__main__":
    main()
