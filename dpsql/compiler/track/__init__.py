"""track: Resolved → Tracked. It derives the privacy unit and the stability of every operator."""
