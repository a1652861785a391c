"""Tables and figures of results, and how they become text, HTML, Markdown, CSV, LaTeX and pictures."""
