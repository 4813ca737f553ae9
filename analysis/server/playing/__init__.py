"""Pages on which matches are played and played back, by `league serve` and `league play --browser`."""

from analysis.server.playing.room import Room
from analysis.server.playing.routes import MakeRoom, play_routes

__all__ = ["MakeRoom", "Room", "play_routes"]
