"""The shared model: queries, facts, errors, policies, answers. Begin with `vocabulary`."""
