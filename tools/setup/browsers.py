"""Provides headless browsers for the tests of pages: the system's, or Debian's with their libraries."""

import contextlib

from .prefix import LIBRARIES, ON_EVERY_HOST, fetch_programs
from .workspace import (BIN, TOOLS, SetupError, building, run, scratch, step, system_program, wrap_private_program,
                        wrap_system_program)

# Left out: a headless browser draws in its own software and starts no services.
NOT_USED = ON_EVERY_HOST + (r"|libgl1-mesa-dri|adwaita-icon-theme|systemd.*|dbus(-.*)?|dconf-.*|libpam-.*|passwd|"
                            r"adduser|procps|shared-mime-info|xdg-.*|dmsetup|libdevmapper.*|mount|util-linux.*")

CHROMIUM_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                  "--disable-background-networking", "--disable-component-update", "--disable-sync")

PAGE = "<p id=answer>none</p><script>document.getElementById('answer').textContent = 6 * 7</script>"

FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
	<dir prefix="relative">../../usr/share/fonts</dir>
	<dir>/usr/share/fonts</dir>
	<cachedir prefix="xdg">fontconfig</cachedir>
	<include ignore_missing="yes">conf.d</include>
</fontconfig>
"""

# The machine may lack fonts, and browsers must not write into the user's home folder.
HOME = TOOLS / "home"
ENVIRONMENT = """\
export FONTCONFIG_PATH="$tools/{name}/etc/fonts" FONTCONFIG_FILE="$tools/{name}/etc/fonts/wisp.conf" HOME="$tools/home"
"""


def install_private(name, package, program):
    with building(name) as prefix:
        fetch_programs(prefix, [package], NOT_USED)
        (prefix / "etc/fonts/wisp.conf").write_text(FONTS, encoding="utf-8")
    libraries = [f"{name}/{LIBRARIES}", f"{name}/{LIBRARIES}/pulseaudio"]
    wrap_private_program(name, f"{name}/{program}", libraries, ENVIRONMENT.format(name=name))


@contextlib.contextmanager
def sample_page():
    """Gives a temporary folder with a page and its script."""
    HOME.mkdir(exist_ok=True)
    with scratch() as folder:
        (folder / "page.html").write_text(PAGE, encoding="utf-8")
        (folder / "profile").mkdir()
        yield folder


def try_chromium():
    with sample_page() as folder, step("trying headless Chromium"):
        page = run([BIN / "chromium", *CHROMIUM_FLAGS, f"--user-data-dir={folder}/profile", "--dump-dom",
                    f"file://{folder}/page.html"], env={"HOME": str(HOME)})
        if '<p id="answer">42</p>' not in page:
            raise SetupError(f"Chromium did not run the script of a page: {page}")


def try_firefox():
    with sample_page() as folder, step("trying headless Firefox"):
        run([BIN / "firefox", "--headless", "--profile", folder / "profile", "--screenshot", folder / "page.png",
             f"file://{folder}/page.html"], env={"HOME": str(HOME)})
        if not (folder / "page.png").exists():
            raise SetupError("Firefox did not take a screenshot")


def install_chromium():
    system = system_program("chromium", "chromium-browser", "google-chrome")
    if system:
        wrap_system_program("chromium", system)
    else:
        install_private("chromium", "chromium", "usr/lib/chromium/chromium")
    try_chromium()


def install_firefox():
    system = system_program("firefox", "firefox-esr")
    if system:
        wrap_system_program("firefox", system)
    else:
        install_private("firefox", "firefox-esr", "usr/lib/firefox-esr/firefox-esr")
    try_firefox()
