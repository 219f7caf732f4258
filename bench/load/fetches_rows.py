import json
import os
from urllib.parse import quote
from urllib.request import Request, urlopen

ENDPOINT = os.environ["APPWRITE_FUNCTION_API_ENDPOINT"]
QUERY = quote(json.dumps({"method": "limit", "values": [25]}))
ROWS = f"{ENDPOINT}/tablesdb/bench_db/tables/products/rows?queries[0]={QUERY}"


def main(context):
    """Fetches 25 rows by HTTP alone: column E2 of the published load test."""
    headers = {
        "x-appwrite-project": os.environ["APPWRITE_FUNCTION_PROJECT_ID"],
        "x-appwrite-key": context.req.headers["x-appwrite-key"],
    }
    with urlopen(Request(ROWS, headers=headers)) as answer:
        return context.res.json(json.load(answer))
