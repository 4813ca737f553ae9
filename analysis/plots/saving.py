"""Figures as SVG and PNG files. The same figure gives the same bytes, and text stays text.

An SVG for a page has the page's colours and unique ids.
"""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path
from xml.sax.saxutils import escape

from matplotlib.figure import Figure

from analysis.plots.names import with_exact
from analysis.plots.sheet import EDGE, LINE
from analysis.plots.style import INK, PAPER, WIDTH, drawing
from storage.errors import Mistake

DPI = 200  # resolution of a PNG: 1,200 pixels wide

_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_PLACES = re.compile(r' (d|x|y)="([^"]*)"|transform="(translate\([^"]*?|rotate\([^"]*?)"')
_MARKERS = re.compile(r'<g(?P<clip> clip-path="[^"]*")?>\n(?P<uses>(?:\s*<use [^>]*/>\n)+)\s*</g>')
_STYLE = re.compile(r' style="([^"]*)"/>')
_FAMILY = re.compile(r"font-family: [^;\"]*|(?<=px )'DejaVu Sans'[^;\"]*")
_IDS = re.compile(r'\bid="([^"]+)"')


def save(figure: Figure, path: str | Path) -> None:
    """Write `figure` to `path`, as SVG or PNG by its suffix.

    Raise Mistake for other suffixes, or if the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() == ".svg":
        size = (
            f'width="{WIDTH:g}pt" height="{_height(figure):g}pt" viewBox="0 0 {WIDTH:g} {_height(figure):g}"'
        )
        head = (
            '<?xml version="1.0" encoding="utf-8"?>\n<svg xmlns="http://www.w3.org/2000/svg"'
            f' xmlns:xlink="http://www.w3.org/1999/xlink" version="1.1" {size}'
            ' stroke-linejoin="round" stroke-linecap="butt">\n'
            f"<title>{escape(_texts(figure, 'title'))}</title>\n"
        )
        content = (head + _body(figure, transparent=False) + "</svg>\n").encode()
    elif path.suffix.lower() == ".png":
        content = png(figure)
    else:
        raise Mistake(f"{path}: found suffix '{path.suffix}', expected .svg or .png: choose one of them")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise Mistake(
            f"{path}: cannot be written ({error.strerror}), expected a writable file: choose another"
        ) from error


def png(figure: Figure) -> bytes:
    """Return `figure` as PNG on white."""
    buffer = io.BytesIO()
    with drawing():
        figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def svg(figure: Figure, *, head: bool = True) -> str:
    """Return `figure` as an `<svg>` element for a page; without `head` its title and subtitle are not drawn.

    It is as wide as its container and transparent, with ink in the page's text colour (`currentColor`) and
    paper in its `--paper`. Ids begin with the plot's name and a hash of its content, so that a page can have
    several plots. Screen readers read its title and subtitle.
    """
    hidden = [] if head else [part for part in figure.texts if part.get_label() in ("title", "subtitle")]
    above = 0.0 if head else EDGE + LINE * sum(float(part.get_fontsize()) for part in hidden)
    for part in hidden:
        part.set_visible(False)
    text = with_exact(_body(figure, transparent=True), figure)
    for part in hidden:
        part.set_visible(True)
    text = text.replace(INK, "currentColor").replace(PAPER, "var(--paper, #fff)")
    digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    prefix = f"{figure.get_label() or 'plot'}-{digest}-"
    text = _IDS.sub(rf'id="{prefix}\1"', text)
    text = text.replace('xlink:href="#', f'href="#{prefix}').replace("url(#", f"url(#{prefix}")
    text = text.replace("xlink:href=", "href=")
    height = _height(figure) - above
    title, below = _texts(figure, "title"), _texts(figure, "subtitle") or _texts(figure, "message")
    opening = (
        f'<svg class="plot" role="img" aria-labelledby="{prefix}title {prefix}desc"'
        f' viewBox="0 {above:g} {WIDTH:g} {height:g}" width="100%" xmlns="http://www.w3.org/2000/svg"'
        f' stroke-linejoin="round" stroke-linecap="butt">\n'
        f'<title id="{prefix}title">{escape(title)}</title>\n<desc id="{prefix}desc">{escape(below)}</desc>\n'
    )
    return opening + text + "</svg>\n"


def _height(figure: Figure) -> float:
    return float(figure.get_size_inches()[1]) * 72


def _body(figure: Figure, *, transparent: bool) -> str:
    """Return matplotlib's output between `<svg>` and `</svg>`, made smaller.

    It has no metadata or comments, positions have two decimals, and a row of markers has its style once.
    """
    buffer = io.StringIO()
    with drawing():
        figure.savefig(buffer, format="svg", transparent=transparent, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*<!--.*?-->", "", text, flags=re.DOTALL)
    # This rule would apply to the whole page; the two properties are inherited from <svg> as well.
    text = re.sub(r"\s*<defs>\s*<style type=\"text/css\">.*?</style>\s*</defs>", "", text, flags=re.DOTALL)
    text = _FAMILY.sub(lambda found: "font-family: sans-serif" if ":" in found[0] else "sans-serif", text)
    text = _PLACES.sub(lambda found: _NUMBER.sub(_rounded, found[0]), text)
    text = re.sub(r' transform="rotate\(-0 [^"]*\)"', "", text)
    text = re.sub(r"\n[ ]*|[ ]+\n", "\n", text).replace("\nL ", "L").replace("\nz", "z")
    return _MARKERS.sub(_styled_once, text).strip() + "\n"


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")


def _styled_once(found: re.Match[str]) -> str:
    styles = set(_STYLE.findall(found["uses"]))
    if len(styles) != 1:
        return found[0]
    uses = re.sub(r"^\s+", "", _STYLE.sub("/>", found["uses"]), flags=re.MULTILINE)
    return f'<g{found["clip"] or ""} style="{styles.pop()}">\n{uses}</g>'


def headline(figure: Figure) -> tuple[str, str, str]:
    """Return the title, the subtitle and the message of `figure`, empty where it has none."""
    return _texts(figure, "title"), _texts(figure, "subtitle"), _texts(figure, "message")


def _texts(figure: Figure, label: str) -> str:
    return " ".join(text.get_text() for text in figure.texts if text.get_label() == label)
