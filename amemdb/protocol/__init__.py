"""Sans-IO protocol: requests in, replies out, no socket and no clock.

`request` is the wire grammar, `reply` the shapes of answers, `numbers` the strict number grammar and `glob`
the pattern language. Only `limits` and `errors` are imported from the rest of the package.
"""
