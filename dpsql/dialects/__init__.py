"""SQL text, in and out: `reading` parses an analyst's; the other packages print SQL for engines."""
