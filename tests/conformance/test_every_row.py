"""The table of conformance: every row of it has its test.

The rows are those of the frontend language's specification, section 7; what they ask
for is in each test's docstring. Where sglrun decides otherwise, the test says why.
"""

import ast
import re
from pathlib import Path

ROWS = 120


def test_every_row_has_one_test() -> None:
    """The tests in this folder are named by the rows 1 to 120, each once."""
    names = [
        node.name
        for path in Path(__file__).parent.glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    numbers = [int(m[1]) for n in names if (m := re.match(r"test_row_(\d{3})_", n))]

    assert sorted(numbers) == list(range(1, ROWS + 1))
