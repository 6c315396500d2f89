"""An S3 API on loopback in a separate process: delta-rs keeps Python's lock while it waits for the answer.

``python -m tests.support.s3_api PORT`` serves moto's, and lets it handle one request at a time. moto handles
several in threads, and looks for a key before it stores one: two conditional puts of one key, which are what
a Delta commit on S3 is, could both succeed then. S3 itself lets one of them through
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html).
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.support.ports import free_port

ANSWERS_WITHIN_SECONDS = 60
STOPS_WITHIN_SECONDS = 20
REGION = "eu-west-1"
ACCESS_KEY = "AK"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCY"
ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def s3_api() -> Iterator[str]:
    """Yield the endpoint's URL; no bucket is there yet."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.s3_api", str(port)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_it_answers(endpoint := f"http://127.0.0.1:{port}")
        yield endpoint
    finally:
        process.terminate()
        process.wait(STOPS_WITHIN_SECONDS)


def make_bucket(endpoint: str, name: str) -> None:
    import boto3

    client = boto3.client(
        "s3",
        region_name=REGION,
        endpoint_url=endpoint,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET,
    )
    client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})


def airflow_connection(endpoint: str) -> str:
    """An Airflow connection of type ``aws``, as JSON."""
    extra = {"region_name": REGION, "endpoint_url": endpoint}
    return json.dumps({"conn_type": "aws", "login": ACCESS_KEY, "password": SECRET, "extra": extra})


def storage_options(endpoint: str) -> dict[str, str]:
    """The same for delta-rs."""
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
    }


def _wait_until_it_answers(endpoint: str) -> None:
    deadline = time.monotonic() + ANSWERS_WITHIN_SECONDS
    while True:
        try:
            urlopen(endpoint, timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the S3 API does not answer"
            time.sleep(0.1)


def one_at_a_time(application: Any) -> Any:
    """A WSGI application that handles a request when it has all of it and no other is being handled."""
    handling = threading.Lock()

    def handle(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        with handling:
            return list(application({**environ, "wsgi.input": io.BytesIO(body)}, start_response))

    return handle


def _serve(port: int) -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    application = one_at_a_time(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", port, application, threaded=True)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
