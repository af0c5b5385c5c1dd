"""What leaked in a run: of the suspects that the watch saw, those that grew to the end and are nobody's work in hand."""

from tenure.analysis.leaks.judge import leaks as leaks
from tenure.analysis.leaks.judge import so_far as so_far
from tenure.analysis.leaks.model import Leak as Leak
