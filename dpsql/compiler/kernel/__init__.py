"""What the final relations of a plan prove by themselves."""
