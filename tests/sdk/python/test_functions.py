"""Functions, their variables and deployments through the strict models."""

from __future__ import annotations

import pytest
from appwrite.enums.runtime import Runtime
from appwrite.input_file import InputFile
from appwrite.query import Query
from appwrite.services.functions import Functions
from server import Server, check_refused


@pytest.fixture(scope="module")
def functions(server: Server) -> Functions:
    return Functions(server.tables().client)


def test_a_function_from_create_to_delete(functions: Functions) -> None:
    made = functions.create(
        "life",
        "Life",
        Runtime.PYTHON_3_11,
        execute=["any"],
        events=["databases.*.tables.*.rows.*.update"],
        schedule="0 6 * * MON",
        timeout=30,
        entrypoint="main.py",
    )
    assert (made.id, made.name, made.runtime, made.timeout) == ("life", "Life", "python-3.11", 30)
    assert (made.vars, made.deploymentid) == ([], "")
    assert functions.get("life") == made
    changed = functions.update("life", "Changed", enabled=False)
    assert (changed.name, changed.enabled, changed.schedule) == ("Changed", False, "0 6 * * MON")
    listed = functions.list([Query.equal("name", "Changed")])
    assert (listed.total, [one.id for one in listed.functions]) == (1, ["life"])
    functions.delete("life")
    check_refused(lambda: functions.get("life"), 404, "function_not_found")


def test_variables_of_a_function(functions: Functions) -> None:
    functions.create("f", "F", Runtime.NODE_20_0)
    secret = functions.create_variable("f", "s", "TOKEN", "x")
    assert (secret.secret, secret.value, secret.resourceid) == (True, "", "f")
    plain = functions.create_variable("f", "p", "REGION", "north", secret=False)
    assert plain.value == "north"
    changed = functions.update_variable("f", "p", value="south")
    assert functions.get_variable("f", "p") == changed
    listed = functions.list_variables("f", [Query.equal("secret", False)])
    assert (listed.total, listed.variables) == (1, [changed])
    assert functions.get("f").vars == [secret, changed]
    functions.delete_variable("f", "p")
    check_refused(lambda: functions.get_variable("f", "p"), 404, "variable_not_found")


def test_what_can_be_named_for_a_function(functions: Functions) -> None:
    for runtime in functions.list_runtimes().runtimes:
        assert runtime.id == f"{runtime.key}-{runtime.version}"
    assert functions.list_specifications().specifications[0].memory == 512


def test_a_deployment_in_parts_comes_back_as_it_was_sent(functions: Functions) -> None:
    functions.create("parts", "Parts", Runtime.NODE_22, entrypoint="main.js")
    data = b"\x1f\x8b" + bytes(range(251)) * 84_000
    made = functions.create_deployment("parts", InputFile.from_bytes(data, "code.tar.gz"), True)
    known = functions.get_deployment("parts", made.id)
    assert known.sourcesize == len(data)
    assert functions.get_deployment_download("parts", made.id) == data
    assert functions.list_deployments("parts").total == 1
    functions.delete_deployment("parts", made.id)
    check_refused(lambda: functions.get_deployment("parts", made.id), 404, "deployment_not_found")
