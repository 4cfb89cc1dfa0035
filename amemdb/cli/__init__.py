"""The commands of the command line, one module each; `amemdb.__main__` puts them together."""
