"""The parts of driver.py, one idea a file. They need the standard library only."""
