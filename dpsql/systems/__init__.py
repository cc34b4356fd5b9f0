"""systems: side systems, each in a folder with its commands. The core imports none of them."""
