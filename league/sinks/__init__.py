"""Figures of a run while it trains, for the tools that people watch their experiments with."""

from league.sinks.reporting import Reporting
from league.sinks.settings import SinkSettings

__all__ = ["Reporting", "SinkSettings"]
