"""The intermediate representation: expressions as data."""

import pytest

from sglrun.lang import ir
from sglrun.lang.choices import token_length_normalized
from sglrun.lang.prompt import ImageData
from sglrun.lang.reasoning import REASONING_FORMATS

GEN = ir.Gen(name="x")
SELECT = ir.Select(name="c", choices=("a",), method=token_length_normalized)


def test_expressions_flatten() -> None:
    """However expressions are grouped, the list of pieces is flat and in order."""
    expr = ir.Gen(name="x") + "a" + (ir.Gen(name="y") + "b")

    assert expr.pieces == (
        ir.Gen(name="x"),
        ir.Text("a"),
        ir.Gen(name="y"),
        ir.Text("b"),
    )
    assert tuple(expr) == expr.pieces


def test_a_string_may_stand_first() -> None:
    """Strings join on either side."""
    assert ("a" + GEN).pieces == (ir.Text("a"), GEN)
    assert ("a" + (GEN + "b")).pieces == (ir.Text("a"), GEN, ir.Text("b"))


def test_joining_changes_nothing() -> None:
    """An expression that is used in two places stays as it was."""
    part = GEN + "a"
    _ = part + "b"

    assert part.pieces == (GEN, ir.Text("a"))


@pytest.mark.parametrize("wrong", [5, 1.5, ["a"], {"a": 1}, b"a", object])
def test_what_is_no_expression_is_refused(wrong: object) -> None:
    """Anything but a string or an expression is a type error that shows it."""
    with pytest.raises(TypeError, match="cannot append") as caught:
        _ = GEN + wrong

    assert repr(wrong) in str(caught.value)
    with pytest.raises(TypeError, match="use a string or an expression"):
        _ = wrong + GEN


def test_none_is_refused_as_a_value() -> None:
    """``None``, what a forgotten ``return`` gives, is refused by name."""
    with pytest.raises(ValueError, match="cannot append None"):
        ir.as_expr(None)


def test_a_string_of_any_class_becomes_plain_text() -> None:
    """The text of a subclass of ``str`` is kept as a plain string."""

    class Marked(str):
        __slots__ = ()

    expr = ir.as_expr(Marked("a"))

    assert isinstance(expr, ir.Text)
    assert type(expr.value) is str


@pytest.mark.parametrize(
    ("piece", "names"),
    [
        (ir.Text("x"), ()),
        (GEN, ("x",)),
        (ir.Gen(), (None,)),
        (
            ir.Gen(name="x", reasoning=REASONING_FORMATS["qwen3"]),
            ("x", "x_reasoning_content"),
        ),
        (SELECT, ("c",)),
        (ir.Select(name=None, choices=("a",), method=token_length_normalized), ()),
        (ir.RoleBegin("user"), ()),
        (ir.RoleEnd("user"), ()),
        (ir.Image(ImageData(url="u")), ()),
        (ir.VarScopeBegin("v"), ()),
        (ir.VarScopeEnd("v"), ("v",)),
    ],
)
def test_pieces_tell_what_they_assign(
    piece: ir.Piece, names: tuple[str | None, ...]
) -> None:
    """Each kind of piece names the variables that it assigns."""
    assert ir.defines(piece) == names


def test_authors_import_the_patterns_from_here() -> None:
    """The four patterns of the dtypes stand where SGLang has them."""
    assert ir.REGEX_INT == r"[-+]?[0-9]+[ \n]*"
    assert ir.REGEX_FLOAT == r"[-+]?[0-9]*\.?[0-9]+[ \n]*"
    assert ir.REGEX_STR == r"\"[\w\d\s]*\""
    assert ir.REGEX_BOOL == r"(True|False)"
