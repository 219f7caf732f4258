"""Says what comes of a request to the API, and of connections to all else."""

import errno
import http.client
import json
import socket


def get(port):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/v1/health")
        return connection.getresponse().read().decode()
    except OSError as error:
        return errno.errorcode[error.errno]


def listen(port):
    try:
        with socket.create_server(("127.0.0.1", port)):
            return "done"
    except OSError as error:
        return errno.errorcode[error.errno]


def main(context):
    port = json.loads(context.req.body_text)["port"]
    return context.res.json({
        "api": get(8280),
        "again": get(8280),
        "host": get(port),
        "next": get(8281),
        "listen": listen(8281),
    })
