"""The compiler: a pure pipeline, with one step per folder."""
