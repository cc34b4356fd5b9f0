"""Answering one question: charge, run, release, remember, in as many steps as needed."""
