"""A condition with a value that a column cannot have is an error, and no answer."""

from __future__ import annotations

import re

import pytest

from cdcwb.errors import OptionError
from cdcwb.formats.options import check_condition


@pytest.mark.parametrize(
    "condition",
    [
        "",
        "operation = 'UPDATE' and size(changed_columns) > 1",
        "operation IN ('INSERT', 'DELETE') or outcome <> 'open'",
        "completeness not in ('complete')",
        "headers['operation_of'] = 'x' and table_name = 'kind'",
        "my_operation = 'update'",
        "operation is null",
        "operation = 'UNKNOWN(9)'",
        "headers['code'] = 'x' and after['code'] = 'y'",
    ],
)
def test_conditions_with_known_values_pass(condition: str) -> None:
    check_condition(condition)


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        ("operation = 'update'", "where: operation has no value 'update'. Did you mean 'UPDATE'? There are: INSERT,"),
        ("code in ('gap', 'maks')", "where: code has no value 'maks'. Did you mean 'mask'?"),
        (
            "1 = 1 and completeness <> 'whole'",
            "where: completeness has no value 'whole'. There are: complete, no_begin,",
        ),
        ("outcome == 'comitted'", "where: outcome has no value 'comitted'. Did you mean 'committed'? There are:"),
        ("severity in ('error', 'warn')", "where: severity has no value 'warn'. Did you mean 'warning'?"),
        ("KIND NOT IN('change','begins')", "where: kind has no value 'begins'. Did you mean 'begin'?"),
    ],
)
def test_a_value_that_does_not_exist_is_an_error(condition: str, sentence: str) -> None:
    with pytest.raises(OptionError, match=re.escape(sentence)):
        check_condition(condition)
