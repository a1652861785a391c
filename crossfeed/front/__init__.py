"""The front door: the verbs of `import crossfeed as cf`, which the command line calls as well."""
