"""Variables: few values are counted, and memory is bounded."""

from typing import Any

from sglrun.batch.recorded import Recorded
from sglrun.batch.results import ErrorInfo
from sglrun.display.report.variables import Values, Variables


def counted(*outputs: dict[str, Any], reason: str = "stop") -> Variables:
    variables = Variables()
    for index, output in enumerate(outputs):
        variables.add(
            Recorded(index=index, output=output, finish_reasons={"x": reason})
        )
    return variables


def values_of(*values: object) -> list[Values]:
    return list(counted(*({"v": value} for value in values)).few_values())


def test_values_are_counted_by_frequency() -> None:
    """A variable with few values tells how often it had each."""
    assert values_of("b", "a", "b") == []
    yes = True
    found = values_of("b", "a", "b", "a", "b", yes, yes, None, None)

    assert found == [
        Values(name="v", counts=(("b", 3), ("a", 2), ("true", 2), ("null", 2)))
    ]
    assert found[0].total == 9


def test_each_of_a_list_counts() -> None:
    """A variable of several branches counts once for each."""
    assert values_of(["good", "bad"], ["good", "bad"]) == [
        Values(name="v", counts=(("good", 2), ("bad", 2)))
    ]


def test_many_or_long_values_are_no_table() -> None:
    """Texts, objects, and more than two dozen values are let go of."""
    assert values_of("x" * 81, "x" * 81) == []
    assert values_of({"a": 1}, {"a": 1}) == []
    assert values_of(*(2 * list(range(25)))) == []


def test_failed_rows_have_no_values() -> None:
    """What a failed row had assigned is not counted, but why generations ended is."""
    variables = Variables()
    error = ErrorInfo(type="E", message="m")
    for _ in range(2):
        variables.add(
            Recorded(
                index=0, output={"v": 1}, error=error, finish_reasons={"v": "length"}
            )
        )

    assert list(variables.few_values()) == []
    assert variables.finish_reasons == {"v": {"length": 2}}


def test_the_number_of_variables_is_bounded() -> None:
    """Rows with variables of their own cost no memory without end."""
    variables = Variables()
    for index in range(1000):
        name = f"v{index}"
        variables.add(
            Recorded(index=0, output={name: 1}, finish_reasons={name: "stop"})
        )

    assert len(variables.finish_reasons) + variables.others == 1000
    assert len(variables.finish_reasons) == 200
