"""What every command means: its declaration and its handler in one place, a module a family.

A handler gets a `Context` and parsed arguments, validates against the stores, decides, emits records and returns a
plain value that the declared shape encodes. To add a command: write the declared function in its family's
module, run `make generate`, add its test. Arity, parser, key positions, categories and `COMMAND` follow.
"""
