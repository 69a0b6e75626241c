"""The parts of tools/train_ternary.py."""
