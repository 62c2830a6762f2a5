"""Made-up programs: sources that do to values what real programs do, and rows."""

import linecache
import warnings
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from sglrun.interpreter.function import Function

_NUMBER = count()
_PARTS = Path(__file__).parent / "made_up_parts"
MODULE = (_PARTS / "module.txt").read_text("utf-8")

Draw = Callable[[st.SearchStrategy[Any]], Any]


def _parts(name: str) -> Mapping[str, tuple[str, ...]]:
    """Return the templates of a file by their kind, one a line."""
    found: dict[str, list[str]] = {}
    for line in (_PARTS / name).read_text("utf-8").splitlines():
        if line.startswith("== "):
            found[line[3:]] = []
        else:
            found[next(reversed(found))].append(line.replace("¶", "\n"))
    return {kind: tuple(templates) for kind, templates in found.items()}


AWKWARD = _parts("awkward.txt")
"""What may decide something, keep it from being followed, or fail."""
CALM = _parts("calm.txt")
"""What decides nothing."""
DEFINED = """

@sgl.function
def made(s, p, q="d", n=None):
    x = "start"
    s += "Begin. "
"""
BEGIN = """    s += "Q: " + sgl.gen("g", max_tokens=3)
"""


class _Maker:
    """Makes a source, drawing what it says."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._left = draw(st.integers(4, 30))
        self._parts = draw(st.sampled_from([CALM, AWKWARD]))
        self._before: list[str] = []  # lines that come before the one being made
        self._names = count()

    def _pick(self, kind: str) -> str:
        self._left -= 1
        return str(self._draw(st.sampled_from(self._parts[kind])))

    def _filled(self, template: str) -> str:
        made = ""
        at = 0
        for position, letter in enumerate(template):
            alone = not (
                template[position - 1 : position].isalnum()
                or template[position - 1 : position] in ("_", ".", "$")
                or template[position + 1 : position + 2].isalnum()
                or template[position + 1 : position + 2] in ("_", '"', "'")
            )
            if letter in "VTCG" and alone:
                made += template[at:position] + self._named(letter, template)
                at = position + 1
        return made + template[at:]

    def _named(self, letter: str, template: str) -> str:
        made = self._hole(letter)
        if "f'" not in template and 'f"' not in template:
            return made
        # Before Python 3.12 no quote of an f-string may stand inside it.
        name = f"v{next(self._names)}"
        self._before.append(f"{name} = {made}")
        return name

    def _lines(self, indent: str, template: str) -> list[str]:
        """Return *template* filled, the lines that come before it first."""
        made = self._filled(template)
        before, self._before = self._before, []
        return [indent + line for line in (*before, *made.split("\n"))]

    def _hole(self, letter: str) -> str:
        if letter == "V":
            return self._pick("values")
        if letter == "G":
            return self._filled(self._pick("generations"))
        if letter == "C":
            return f"({self._filled(self._pick('tests'))})"
        if self._left < 0:
            return str(
                self._draw(st.sampled_from(['"x"', '"<a>"', "wrap(p)", "str(q)"]))
            )
        return self._filled(self._pick("texts"))

    def block(self, indent: str, *, deep: int) -> str:
        """Return a few statements."""
        lines = []
        for _ in range(self._draw(st.integers(1, 4))):
            if deep and self._draw(st.integers(0, 3)) == 0:
                for line in self._pick("blocks").split("\n"):
                    if line.strip() == "B":
                        inside = indent + line[: line.index("B")]
                        lines.append(self.block(inside, deep=deep - 1))
                    else:
                        own = line[: len(line) - len(line.lstrip())]
                        lines += self._lines(indent + own, line.lstrip())
            else:
                lines += self._lines(indent, self._pick("simple"))
        return "\n".join(lines)

    def source(self) -> str:
        """Return the source of a module with a program ``made``."""
        body = self.block("    ", deep=2)
        last = self._draw(
            st.sampled_from(
                ["", "return T", "return V", 'return {"a": V, "b": [T, 1]}', "return s"]
            )
        )
        end = "\n".join(self._lines("    ", str(last)))
        begun = BEGIN if self._draw(st.integers(0, 2)) == 0 else ""
        return f"{MODULE}{DEFINED}{begun}{body}\n    s += sgl.gen('end')\n{end}\n"


@st.composite
def sources(draw: Draw) -> str:
    """Return the source of a module with a program ``made``."""
    return _Maker(draw).source()


WORDS = st.sampled_from(
    ["", "a", "ab", "yes", "<a>", " a b\n", "x" * 40, "3", 'é"{}', "A\n\nB"]
)
ANY = st.one_of(
    WORDS, WORDS, WORDS, st.integers(0, 4), st.none(), st.booleans(), st.just(1.5),
    st.lists(WORDS, max_size=2), st.fixed_dictionaries({}, optional={"k": WORDS}),
)  # fmt: skip
ROWS = st.lists(
    st.fixed_dictionaries({"p": ANY}, optional={"q": ANY, "n": ANY}),
    min_size=1,
    max_size=4,
)


def load(source: str) -> Function:
    """Return the program ``made`` of a *source* that is in no file."""
    name = f"/made_up/program_{next(_NUMBER)}.py"
    lines = source.splitlines(keepends=True)
    linecache.cache[name] = (len(source), None, lines, name)
    module: dict[str, Any] = {"__name__": "made_up"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # as of `"x" is "x"`
        exec(compile(source, name, "exec", dont_inherit=True), module)  # noqa: S102
    program: Function = module["made"]
    return program
