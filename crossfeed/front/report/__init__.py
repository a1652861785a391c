"""What was found, for people: one HTML file, tables as CSV and LaTeX, figures as PNG."""
