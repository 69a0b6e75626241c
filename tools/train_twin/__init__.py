"""The parts that tools/train_relu.py and tools/train_ternary.py share."""
