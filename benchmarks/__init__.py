"""How fast amemdb is, and how much memory it takes, next to Redis on the same machine: `make bench`.

`rows` is the table of what is measured, one entry each. `servers` starts the two servers, `loader` (and `loader.c`)
keeps them busy, `measure` alternates between them, `arithmetic` makes ratios of the samples, `report` and `plot` show
them. `environment` fetches Redis and the plotting library into an environment of the benchmarks' own; nothing here is
a dependency of the product. The method is described in docs/benchmarks.md.
"""
