"""What is remembered of a run. Readers need two names:

storage.connect(run)          a DuckDB connection with the run's tables, always fresh, also while it trains
storage.query(run, sql)       one question, one Arrow table; reaches no file and no setting
"""

from storage.tables.live import LiveConnection, connect
from storage.tables.questions import query

__all__ = ["LiveConnection", "connect", "query"]
