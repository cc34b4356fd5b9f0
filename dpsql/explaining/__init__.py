"""The plan and the price of a question, in words."""
