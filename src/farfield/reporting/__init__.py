"""What a folder of results says, as a page and its files."""

import farfield.plotting  # noqa: F401 (imports matplotlib whatever MPLBACKEND says, before the files here do)
