"""Papers: one folder a paper, one small declaration a table or figure, published numbers as data."""

import farfield.plotting  # noqa: F401 (imports matplotlib whatever MPLBACKEND says, before the files here do)
from farfield.papers import implicit_bias, realizability
from farfield.papers.base import Paper

PAPERS: dict[str, Paper] = {paper.name: paper for paper in (implicit_bias.PAPER, realizability.PAPER)}

__all__ = ["PAPERS", "Paper"]
