"""Headless browsers for the tests of web pages."""

import os
import shutil

from .apt import LIBRARIES, ON_EVERY_HOST, fetch_programs
from .workspace import (BIN, SetupError, building, run, scratch, step, system_program, wrap_private_program,
                        wrap_system_program)
