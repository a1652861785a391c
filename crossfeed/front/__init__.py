"""The verbs of `import crossfeed as cf`, which the command line calls, the report of what was found, ONNX files."""
