import os

from appwrite.client import Client
from appwrite.query import Query
from appwrite.services.tables_db import TablesDB


def main(context):
    """Fetches 25 rows by the official client, as column E2 of the published load test does."""
    client = Client()
    client.set_endpoint(os.environ["APPWRITE_FUNCTION_API_ENDPOINT"])
    client.set_project(os.environ["APPWRITE_FUNCTION_PROJECT_ID"])
    client.set_key(context.req.headers["x-appwrite-key"])
    found = TablesDB(client).list_rows("bench_db", "products", [Query.limit(25)])
    rows = [{**row.to_dict(), **row.data} for row in found.rows]
    # The client takes every number for a float.
    return context.res.json({"total": int(found.total), "rows": rows})
