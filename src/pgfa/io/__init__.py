"""Tables of users, read and written by the command line.

Labels are kept, nothing is guessed, and every complaint names the file, the line and the column, and says what was
expected.
"""

from pgfa.io.cells import Cells, TableError, read_cells
from pgfa.io.tables import read_adjacency, read_edges, read_matrix, read_records
from pgfa.io.writing import safe_cell, write_table

__all__ = [
    "Cells",
    "TableError",
    "read_adjacency",
    "read_cells",
    "read_edges",
    "read_matrix",
    "read_records",
    "safe_cell",
    "write_table",
]
