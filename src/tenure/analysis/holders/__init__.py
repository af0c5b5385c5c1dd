"""Who keeps a tensor's buffer alive, as shortest named paths from roots."""

from tenure.analysis.holders.find import find as find
