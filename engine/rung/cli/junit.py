"""Outcomes of the parity oracle as JUnit XML, which runners of CI read.

Owns the form: the one that pytest writes, without times of day and names of machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from rung.diagnostics import printable
from rung.parity import FAILED, SKIPPED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rung.parity import Outcome

__all__ = ["as_junit"]


def as_junit(outcomes: Sequence[tuple[Outcome, str]]) -> str:
    """Give a suite with a case per outcome; the text beside an outcome that failed is its report."""
    counts = {status: sum(o.status == status for o, _ in outcomes) for status in (FAILED, SKIPPED)}
    suites = ElementTree.Element("testsuites", name="rung")
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name="rung parity",
        errors="0",
        failures=str(counts[FAILED]),
        skipped=str(counts[SKIPPED]),
        tests=str(len(outcomes)),
        time=f"{sum(o.seconds for o, _ in outcomes):.3f}",
    )
    for outcome, text in outcomes:
        backend = outcome.cell.partition("/")[0]
        label = f"[{outcome.label}]" if outcome.label else ""
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=printable(f"{backend}.{outcome.op}"),
            name=printable(f"{outcome.cell}{label}"),
            time=f"{outcome.seconds:.3f}",
        )
        message = printable(outcome.detail)
        if outcome.status == FAILED:
            failure = ElementTree.SubElement(case, "failure", message=message)
            failure.text = "\n".join(printable(line) for line in text.split("\n"))
        elif outcome.status == SKIPPED:
            ElementTree.SubElement(case, "skipped", type="rung.skip", message=message).text = message
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=False)
