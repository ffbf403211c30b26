"""Check the contrast and the width of HTML pages."""

import re
from importlib.resources import files

import numpy as np


def check_colours(package, inks):
    """Check that the inks of a package's style sheet can be read on its papers, by day and by night."""
    style = files(package).joinpath("page.css").read_text("utf-8")
    light, dark = (dict(re.findall(r"--(\w+): (#\w{6})", part)) for part in style.split("@media screen")[:2])
    assert light.keys() == dark.keys()
    for colors in (light, dark):
        for ink in inks:
            for paper in ("page", "card"):
                low, high = sorted(brightness(colors[name]) for name in (ink, paper))
                assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, paper)


def brightness(color):
    """Return the relative luminance of a colour (WCAG)."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return np.dot([0.2126, 0.7152, 0.0722], linear)


def check_widths(page):
    """Check that nothing sticks out of an open page, all of it unfolded."""
    page.locator("details").evaluate_all("all => all.forEach(e => { e.open = true; })")
    for width in (1200, 400, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
