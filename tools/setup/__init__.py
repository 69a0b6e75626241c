"""The recipes behind tools/setup.py: one idea a module."""
