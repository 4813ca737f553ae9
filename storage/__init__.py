"""What is remembered of a run. Readers need two names:

storage.connect(run)          a DuckDB connection with the run's tables, also while it trains
storage.query(run, sql)       one question, one Arrow table
"""

from storage.database import connect, query

__all__ = ["connect", "query"]
