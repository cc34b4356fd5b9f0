"""python -m dpsql."""

from dpsql.interfaces.cli import main

if __name__ == "__main__":
    main(prog_name="dpsql")
