"""track: Resolved → Tracked. The privacy unit and the stability of every operator."""
