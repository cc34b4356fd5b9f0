"""What everybody speaks of: queries, facts, errors, policies, answers. Read `vocabulary`."""
