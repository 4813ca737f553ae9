"""Report: one HTML page that shows what happened in a run.

    Path("report.html").write_text(report_page(analysis.open_run("runs/connect_four")))

A page consists of sections, each a piece of HTML with its own id; the live page shows the same sections.
"""

from analysis.report.markup import Section
from analysis.report.page import report_page, sections

__all__ = ["Section", "report_page", "sections"]
