#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes _wisp.py: the constants, structs and functions of wisp.h, for ctypes.

The package declares nothing by hand, so that it cannot differ from the header. It reads what the compiler sees
(gcc -E) by pycparser.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from pycparser import c_ast, c_parser  # type: ignore[import-untyped]

# What the C library's headers say beyond C is left out.
SILENT = ["-D__attribute__(x)=", "-D__extension__=", "-D__restrict=", "-D__inline=inline", "-D__asm__(x)=",
          "-D__builtin_va_list=int"]
BASIC = {
    "void": "None", "_Bool": "ctypes.c_bool", "char": "ctypes.c_char", "unsigned char": "ctypes.c_ubyte",
    "int": "ctypes.c_int", "float": "ctypes.c_float", "double": "ctypes.c_double", "size_t": "ctypes.c_size_t",
} | {f"{sign}int{bits}_t": f"ctypes.c_{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


class Header:
    """The declarations of wisp.h, as lines of Python."""

    def __init__(self, source: str) -> None:
        self.constants: list[str] = []
        self.structs: list[str] = []
        self.fields: list[str] = []
        self.functions: list[str] = []
        self.enums: set[str] = set()
        self.known: set[str] = set()
        self.values: dict[str, int] = {}
        for node in c_parser.CParser().parse(source).ext:
            self.add(node)

    def add(self, node: Any) -> None:
        name = getattr(node, "name", None) or ""
        if isinstance(node, c_ast.Typedef) and name.startswith("wisp_"):
            kind = node.type.type
            if isinstance(kind, c_ast.Enum):
                self.enums.add(name)
                self.add_enum(kind)
            else:
                self.add_struct(name, kind)
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.Enum):
            self.add_enum(node.type)
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl) and name.startswith("wisp_"):
            result, *arguments = self.signature(node.type)
            self.functions.append(f"    declare(library.{name}, {result}, [{', '.join(arguments)}])")

    def add_enum(self, node: Any) -> None:
        following = 0
        for entry in node.values.enumerators:
            if not entry.name.startswith("WISP_"):
                continue
            if entry.value is not None:
                following = self.number(entry.value)
            self.values[entry.name] = following
            self.constants.append(f"{entry.name} = {following}")
            following += 1

    def add_struct(self, name: str, node: Any) -> None:
        self.known.add(name)
        self.structs.append(f'\n\nclass {name}(ctypes.Structure):\n    """`{name}` of wisp.h."""')
        if node.decls is None:
            return
        fields = "".join(f'    ("{field.name}", {self.python_type(field.type)}),\n' for field in node.decls)
        self.fields.append(f"{name}._fields_ = [\n{fields}]")

    def number(self, node: Any) -> int:
        if isinstance(node, c_ast.UnaryOp):
            return -self.number(node.expr)
        return self.values[node.name] if isinstance(node, c_ast.ID) else int(node.value, 0)

    def signature(self, node: Any) -> list[str]:
        """Returns the types of the result and of the arguments."""
        types = [self.python_type(argument.type) for argument in node.args.params]
        return [self.python_type(node.type), *(kind for kind in types if kind != "None")]

    def python_type(self, node: Any) -> str:
        if isinstance(node, c_ast.ArrayDecl):
            return f"{self.python_type(node.type)} * {self.number(node.dim)}"
        if isinstance(node, c_ast.PtrDecl):
            if isinstance(node.type, c_ast.FuncDecl):
                return f"ctypes.CFUNCTYPE({', '.join(self.signature(node.type))})"
            target = self.python_type(node.type)
            special = {"None": "ctypes.c_void_p", "ctypes.c_char": "ctypes.c_char_p"}
            return special.get(target) or f"ctypes.POINTER({target})"
        name = " ".join(node.type.names)
        if name in self.enums:
            return "ctypes.c_int"
        return name if name in self.known else BASIC[name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("header", type=Path, help="src/wisp.h")
    parser.add_argument("output", type=Path, help="the file to write")
    arguments = parser.parse_args()
    source = subprocess.run(["gcc", "-E", "-P", *SILENT, str(arguments.header)], check=True, capture_output=True,
                            text=True).stdout
    header = Header(source)
    lines = ['"""The C API of wisp.h for ctypes. Written by python/abi.py."""', "", "import ctypes",
             "from typing import Any", "", *header.constants, *header.structs, "", "", *header.fields, "", "",
             "def declare(function: Any, result: Any, arguments: list[Any]) -> None:",
             "    function.restype, function.argtypes = result, arguments", "", "",
             "def declare_all(library: Any) -> None:",
             '    """Gives the functions of a library that was loaded their types."""', *header.functions]
    arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
