"""Studies: what is trained (:mod:`cells`), how (:mod:`running`), what came out (:mod:`results`), where it is kept (:mod:`store`)."""
