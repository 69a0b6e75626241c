"""The parts of tools/train_blocks.py."""
