"""The picture of a report that the README shows.

    python -m tests.bench.report_picture RUN [OUT]

Writes the upper part of the page of `league report RUN` as a PNG, by default to analysis/report/example.png.
Needs chromium and chromedriver, as the tests of the page do (`make browser`).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import analysis
from analysis.report import report_page
from tests.analysis.browser import Browser
from tests.bench.shared import parser_of

WIDTH, HEIGHT = 1280, 1100  # pixels


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path, nargs="?", default=Path("analysis/report/example.png"))
    arguments = parser.parse_args()
    with analysis.open_run(arguments.run) as history:
        html = report_page(history)
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        page = Path(folder) / "report.html"
        page.write_text(html, encoding="utf-8")
        browser.open(page.as_uri(), width=WIDTH, height=HEIGHT)
        browser.driver.save_screenshot(str(arguments.out))
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
