"""Every bound of the system that is not a setting, in one place.

A bound that an operator may want to move is a setting (`amemdb.config`); what is here is part of the
contract or of the file format, and changing it changes what clients and old logs may rely on.
"""

# -- wire ----------------------------------------------------------------------------------------
INLINE_BYTES_MAX = 64 * 1024
"""Longest inline request, and longest header line, in bytes."""
ARGS_MAX = 1024 * 1024
"""Most arguments in one request."""
BULK_BYTES_MAX = 512 * 1024 * 1024
"""Longest single argument, and longest value that a command may build."""
ARGS_MAX_UNAUTHENTICATED = 10
BULK_BYTES_MAX_UNAUTHENTICATED = 16 * 1024
REPLY_ELEMENTS_MAX = 1024 * 1024
"""Most elements in one array of a reply: published clients refuse more."""
REPLY_BYTES_MAX = BULK_BYTES_MAX
"""Most bytes of values that one MGET or one transaction may answer."""
PATTERN_BYTES_MAX = 4096
"""Longest glob pattern with wildcards: to read one takes up to two microseconds a byte."""
CONFIG_PATTERNS_MAX = 64
CONFIG_PATTERNS_BYTES_MAX = 4096
"""Most patterns of one CONFIG GET, and most bytes of all of them."""
INFO_SECTIONS_MAX = 64
"""Most sections that one INFO may name."""
ERROR_ARG_BYTES_MAX = 128
"""How much of an argument an error line may echo."""

# -- numbers and times ---------------------------------------------------------------------------
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
MS_PER_YEAR = 31_557_600_000
EXPIRY_AHEAD_MS_MAX = 100 * MS_PER_YEAR
"""A time further ahead of now than this is refused as a mistake."""
TTL_SECONDS_MAX = EXPIRY_AHEAD_MS_MAX // 1000
NO_EXPIRY = 0
"""`expire_at_ms` of what never expires; what expired in the past is at least 1."""

# -- names and objects ---------------------------------------------------------------------------
NAME_BYTES_MAX = 1024
"""Longest name of an AMEM object, in bytes."""
ID_BYTES_MAX = 1024
META_BYTES_MAX = 64 * 1024
DATABASES = 16
WINDOW_MAX = 1_000_000
DIMENSION_MAX = 65_536
EMBED_TEXT_BYTES_MAX = 256 * 1024
"""Longest text that the embedder is given: far more than any model reads."""
RECALL_K_MAX = 100_000
WORDS_BYTES_MAX = 8192
"""Longest query that is searched for by its words."""
FILTER_BYTES_MAX = 4096
FILTER_TERMS_MAX = 64
FILTER_DEPTH_MAX = 16
"""The longest filter of a recall, the most comparisons in it, and how deep they may be nested."""
EXPLAINED_MAX = 20
"""Most facts that EXPLAIN names as left out."""
GRAPH_LINKS_MIN, GRAPH_LINKS_MAX = 4, 128
GRAPH_WIDTH_MAX = 10_000
"""Bounds of M, and of EF_CONSTRUCTION and EF_SEARCH."""
FACTS_MAX = 1_000_000_000
LANGUAGE_BYTES_MAX = 32
FLOAT16_MAX = 65504.0
"""The largest component that 16 bits hold."""
EVENT_IDS_REMEMBERED = 1000
"""Among how many of an agent's newest events an `ID` makes a retry harmless."""
EVENTS_PAGE_DEFAULT = 100
EVENTS_PAGE_MAX = 10_000
"""Most events that one page of an export holds."""
EVENTS_PAGE_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of contents and metadata after which a page of an export ends early."""
SUMMARY_HISTORY_MAX = 16
"""How many versions of a summary are kept."""
SCAN_COUNT_DEFAULT = 10
TRANSACTION_BYTES_MAX = 1024 * 1024 * 1024
"""Most bytes that the commands between MULTI and EXEC may hold."""

# -- background work -----------------------------------------------------------------------------
EXPIRE_BATCH_MAX = 256
"""Most objects that one tick of the expiry wheel removes before others get their turn."""
EVENTS_REMOVED_AT_ONCE_MAX = 1000
"""Most events out of age that one record removes from a log; the rest stay hidden until the next."""
