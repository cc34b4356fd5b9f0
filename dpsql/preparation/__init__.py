"""Preparation: from text, policy and public data to a question that is ready to run."""
