"""The parts of tools/train_relu.py."""
