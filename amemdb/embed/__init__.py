"""Makes vectors of texts: embedders, and a service that batches, caches and bounds what is asked of one.

Models are the outside world, slow and fallible. So this is seen by the server's edge and by the runtime, never by the
engine, and it knows neither commands nor an event loop: whoever has a loop waits for the futures of the service.
"""
