"""The recipes of tools/setup.py, one idea in each module."""
