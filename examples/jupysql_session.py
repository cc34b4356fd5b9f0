"""JupySQL: `%sql` in a notebook, over the SQLAlchemy dialect.

Needs the extra `sqlalchemy` and the package `jupysql`. In a notebook, write the magics themselves;
this script runs them as a notebook would. Run it after `dpsql demo --small`:
python examples/jupysql_session.py dpsql-demo/dpsql.toml
"""

import sys
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell

policy = sys.argv[1] if len(sys.argv) > 1 else "dpsql-demo/dpsql.toml"
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "sql")
shell.run_line_magic("sql", f"dpsql:///{Path(policy).resolve()}?analyst=ana --alias shop")

# %%sql
by_segment = shell.run_cell_magic(
    "sql", "", "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment ORDER BY segment"
)
print(by_segment.DataFrame())

# %%sql, with a variable of the notebook
shell.user_ns["status"] = "paid"
paid = shell.run_cell_magic(
    "sql", "", "SELECT SUM(amount) AS total FROM orders WHERE status = '{{status}}'"
)
print(paid.DataFrame())

# %sqlcmd tables
print(shell.run_line_magic("sqlcmd", "tables"))
