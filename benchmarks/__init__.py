"""How fast amemdb is, and how much memory it takes, next to Redis on the same machine: `make bench`.

`rows` is the table of what is measured, one entry each. `servers` starts the two servers; `loader` runs the programs
that ask them, `loader.c` as fast as they answer and `pacer.c` at a fixed rate; `measure`, `paced`, `restart` and
`compaction` are the kinds of row and alternate between the servers; `arithmetic` makes ratios of the samples, and
`report` and `plot` show them.
`hotspots` shows instead where the CPU time of a row goes. `environment` fetches Redis and the plotting library into an
environment of the benchmarks' own; nothing here is a dependency of the product. The method is described in
docs/benchmarks.md.
"""
