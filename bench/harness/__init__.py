"""What driver.py is made of, one idea a file; nothing but the standard library."""
