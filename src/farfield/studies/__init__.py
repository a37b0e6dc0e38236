"""Studies: what is trained (cells), how (running), what came out (results), where it is kept (store)."""
