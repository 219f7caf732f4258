"""Executions through the strict models: waited for, queued, by the clock and by rows."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import appwrite
import pytest
from appwrite.enums.execution_method import ExecutionMethod
from appwrite.enums.project_key_scopes import ProjectKeyScopes
from appwrite.enums.runtime import Runtime
from appwrite.input_file import InputFile
from appwrite.services.functions import Functions
from server import POLL_S, Server, check_refused

LIMIT_S = 180
"""A minute of a schedule may just have begun, and the machine may be busy."""

SHOWN = """
import json

def main(context):
    req = context.req
    names = ("x-appwrite-trigger", "x-appwrite-event")
    context.log(json.dumps({name: req.headers.get(name) for name in names}))
    context.log(req.body_text)
    return context.res.json({"path": req.path, "method": req.method}, 201)
"""

INSIDE = """
import os

from appwrite.client import Client
from appwrite.exception import AppwriteException
from appwrite.query import Query
from appwrite.services.tables_db import TablesDB

def main(context):
    client = Client().set_endpoint(os.environ["APPWRITE_FUNCTION_API_ENDPOINT"])
    client.set_project(os.environ["APPWRITE_FUNCTION_PROJECT_ID"])
    client.set_key(context.req.headers["x-appwrite-key"])
    tables = TablesDB(client)
    for row in ("a", "b"):
        tables.create_row("inside", "notes", row, {"text": f"of {row}"})
    found = tables.list_rows("inside", "notes", [Query.equal("text", "of b")])
    try:
        tables.list_tables("inside")
        refused = None
    except AppwriteException as error:
        refused = error.type
    return context.res.json({"found": [row.id for row in found.rows], "refused": refused})
"""


@pytest.fixture(scope="module")
def functions(server: Server) -> Functions:
    return Functions(server.tables().client)


@pytest.fixture(scope="module")
def runtime(functions: Functions) -> Runtime:
    """The runtime of this Python; skips where functions are not executed."""
    own = f"python-{sys.version_info.major}.{sys.version_info.minor}"
    if own in [one.id for one in functions.list_runtimes().runtimes]:
        return Runtime(own)
    assert os.environ.get("TIDEMARK_JAIL") != "required", "functions are not executed here"
    pytest.skip(f"functions are not executed here by {own}")


def until(what: str, attempt: Callable[[], Any]) -> Any:
    """Repeats `attempt` until it gives something other than None."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        found = attempt()
        if found is not None:
            return found
        time.sleep(POLL_S)
    raise TimeoutError(f"{what} took more than {LIMIT_S} s")


def deploy(functions: Functions, function: str, main: str, folders: tuple[Path, ...] = ()) -> None:
    """Sends code, with these folders beside it, and waits until it can be executed."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        entry = tarfile.TarInfo("main.py")
        entry.size = len(main.encode())
        archive.addfile(entry, io.BytesIO(main.encode()))
        for folder in folders:
            archive.add(folder, folder.name)
    code = InputFile.from_bytes(packed.getvalue(), "code.tar.gz")
    sent = functions.create_deployment(function, code, True, entrypoint="main.py")

    def built() -> Any:
        found = functions.get_deployment(function, sent.id)
        return found if found.status.value in ("ready", "failed") else None

    found = until("the build", built)
    assert found.status.value == "ready", found.buildlogs


def ended(functions: Functions, function: str, execution: str) -> Any:
    def look() -> Any:
        found = functions.get_execution(function, execution)
        return found if found.status.value in ("completed", "failed") else None

    return until("the execution", look)


def first_of(functions: Functions, function: str) -> Any:
    """The first execution of a function, when it has ended."""

    def look() -> Any:
        listed = functions.list_executions(function).executions
        is_over = listed and listed[0].status.value in ("completed", "failed")
        return listed[0] if is_over else None

    return until("an execution", look)


def test_an_execution_that_is_waited_for(functions: Functions, runtime: Runtime) -> None:
    functions.create("waited", "F", runtime)
    deploy(functions, "waited", SHOWN)
    answer = functions.create_execution(
        "waited", "sent", False, "/way", ExecutionMethod.PUT, {"x-own": "a"}
    )
    assert (answer.status.value, answer.responsestatuscode) == ("completed", 201)
    assert json.loads(answer.responsebody) == {"path": "/way", "method": "PUT"}
    assert answer.logs.splitlines()[1] == "sent"


def test_an_execution_that_is_queued_and_deleted(functions: Functions, runtime: Runtime) -> None:
    functions.create("queued", "F", runtime)
    deploy(functions, "queued", SHOWN)
    accepted = functions.create_execution("queued", "sent", True)
    assert accepted.status.value == "waiting"
    found = ended(functions, "queued", accepted.id)
    assert (found.status.value, found.responsestatuscode, found.responsebody) == (
        "completed",
        201,
        "",
    )
    assert found.logs.splitlines()[1] == "sent"
    assert [one.id for one in functions.list_executions("queued").executions] == [found.id]
    functions.delete_execution("queued", found.id)
    gone = lambda: functions.get_execution("queued", found.id)  # noqa: E731
    check_refused(gone, 404, "execution_not_found")


def test_an_execution_by_a_row(server: Server, functions: Functions, runtime: Runtime) -> None:
    tables = server.tables()
    tables.create("events", "Events")
    columns = [{"key": "text", "type": "string", "size": 100}]
    tables.create_table("events", "notes", "Notes", columns=columns)
    functions.create("listens", "F", runtime, events=["tablesdb.events.tables.notes.rows.*.create"])
    deploy(functions, "listens", SHOWN)
    tables.create_row("events", "notes", "one", {"text": "seen"})
    found = first_of(functions, "listens")
    assert (found.trigger.value, found.status.value) == ("event", "completed")
    headers, row = found.logs.splitlines()
    event = "tablesdb.events.tables.notes.rows.one.create"
    assert json.loads(headers) == {"x-appwrite-trigger": "event", "x-appwrite-event": event}
    assert json.loads(row)["text"] == "seen"


def test_an_execution_by_the_clock(functions: Functions, runtime: Runtime) -> None:
    functions.create("timed", "F", runtime, schedule="* * * * *")
    deploy(functions, "timed", SHOWN)
    found = first_of(functions, "timed")
    assert (found.trigger.value, found.status.value) == ("schedule", "completed")
    functions.delete("timed")


def test_the_sdk_inside_a_handler(server: Server, functions: Functions, runtime: Runtime) -> None:
    tables = server.tables()
    tables.create("inside", "Inside")
    columns = [{"key": "text", "type": "string", "size": 100}]
    tables.create_table("inside", "notes", "Notes", columns=columns)
    scopes = [ProjectKeyScopes.ROWS_READ, ProjectKeyScopes.ROWS_WRITE]
    functions.create("inside", "F", runtime, scopes=scopes, timeout=120)
    # As `pip install --target` lays them beside the code.
    packages = Path(appwrite.__file__).parent.parent
    names = ("appwrite", "requests", "urllib3", "idna", "certifi", "charset_normalizer")
    typed = ("pydantic", "pydantic_core", "annotated_types", "typing_inspection")
    folders = tuple(packages / name for name in names + typed)
    extension = packages / "typing_extensions.py"
    deploy(functions, "inside", INSIDE, (*folders, extension))
    answer = functions.create_execution("inside")
    assert answer.status.value == "completed", answer.errors
    wanted = {"found": ["b"], "refused": "general_unauthorized_scope"}
    assert json.loads(answer.responsebody) == wanted
    assert tables.get_row("inside", "notes", "a").data["text"] == "of a"
