"""farfield: train short, test long; predict, measure and explain length generalization in attention."""

__version__ = "0.1.0"
