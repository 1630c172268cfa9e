"""Python's `requests` asks `netwright serve hello`, in clear and in TLS, and `serve http`."""

import sys
import warnings

import requests

warnings.simplefilter("ignore")  # certificates are self-signed here
plain, secure, files = sys.argv[1:]

for url in (plain, secure):
    with requests.Session() as session:
        session.verify, session.trust_env = False, False
        assert session.get(url + "/", timeout=30).text == "Hello, World!"
        assert session.get(url + "/json", timeout=30).json() == {"message": "Hello, World!"}
        body = bytes(range(256)) * 10_000
        for method in ("POST", "PUT", "PATCH", "DELETE", "GET"):
            answer = session.request(method, url + "/echo", data=body, timeout=30)
            assert answer.status_code == 200 and answer.content == body, method
        pieces = [b"a" * 100_000, b"b", b"c" * 70_000]
        answer = session.post(url + "/echo", data=iter(pieces), timeout=30)  # chunked
        assert answer.content == b"".join(pieces)
        with session.get(url + "/bytes/3000000", stream=True, timeout=30) as answer:
            made = b"".join(answer.iter_content(10_000))
        assert made == bytes(i % 251 for i in range(3_000_000))
        assert session.get(url + "/nowhere", timeout=30).status_code == 404
        assert session.head(url + "/bytes/77", timeout=30).headers["content-length"] == "77"
        # More headers than are allowed are refused, and the server goes on.
        many = {f"x-{number}": "y" for number in range(200)}
        assert session.get(url + "/", headers=many, timeout=30).status_code == 431
        assert session.get(url + "/", timeout=30).status_code == 200

session = requests.Session()
session.trust_env = False
answer = session.get(files + "/digits", headers={"Range": "bytes=3-5"}, timeout=30)
assert (answer.status_code, answer.text) == (206, "345")
etag = answer.headers["etag"]
assert session.get(files + "/digits", headers={"If-None-Match": etag}, timeout=30).status_code == 304
