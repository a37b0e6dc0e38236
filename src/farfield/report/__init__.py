"""Reports: figures (:mod:`figures`), the HTML page (:mod:`page`) and the terminal's tables (:mod:`terminal`)."""
