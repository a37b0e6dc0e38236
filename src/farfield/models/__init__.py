"""Models: one attention head (:mod:`~farfield.models.head`) and its fast path (:mod:`~farfield.models.lookup`)."""
