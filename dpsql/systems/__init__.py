"""systems: side systems, each in a folder with its commands; the core needs none of them."""
