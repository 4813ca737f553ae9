"""The report: one page that says what happened in a run, for people.

    Path("report.html").write_text(report_page(analysis.open_run("runs/connect_four")))

It is made of sections, each a piece of HTML with an id of its own, which a live page shows, too.
"""

from analysis.report.makers import sections
from analysis.report.page import report_page
from analysis.report.writing.section import Section

__all__ = ["Section", "report_page", "sections"]
