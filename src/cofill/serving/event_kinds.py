"""What an event may be of: its kind, and how much it may count. Said on the command line and in requests alike."""

KIND = r"[A-Za-z0-9_.:-]{1,64}"
"""The names that kinds of events may have, as a regular expression."""
SHOWN = "shown"
"""The kind of the events that say what somebody was shown: they count for nothing, and are kept for a while."""
GREATEST_WEIGHT = 1_000_000
KEEP_SHOWN_DAYS, KEEP_EVENTS_DAYS = 30.0, 90.0
"""For how long rows of events are kept, unless somebody says otherwise."""
