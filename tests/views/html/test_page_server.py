"""The served page: detail for those who have the token, and nothing for anybody else."""

import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest

import tenure
from tenure.views.html.build import both
from tenure.views.html.server import HEADER, Server


@pytest.fixture(scope="module")
def server(folder):
    trace = tenure.load(folder)
    with Server(trace, both(trace)) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(server, path, method="GET", host=None, **headers):
    """Status and body; the path goes as it is."""
    link = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    link.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    if host != "":
        link.putheader("Host", host or f"127.0.0.1:{server.server_port}")
    for name, value in headers.items():
        link.putheader(name.replace("_", "-"), value)
    link.endheaders()
    answer = link.getresponse()
    body = answer.read()
    link.close()
    return answer.status, body, dict(answer.headers)


def with_token(server):
    return {HEADER.replace("-", "_"): server.token}


def test_the_page_needs_its_token(server):
    status, body, headers = ask(server, f"/?token={server.token}")
    assert status == 200 and b"<title>tenure</title>" in body
    assert headers["X-Frame-Options"] == "DENY" and headers["Referrer-Policy"] == "no-referrer"
    for path in (
        "/",
        "/?token=",
        "/?token=wrong",
        f"/?token={server.token[:-1]}",
        f"/?token={server.token}x",
        "/?token=%ff%00",
    ):
        status, body, _ = ask(server, path)
        assert status == 403 and len(body) < 200, path
    assert ask(server, "/", **with_token(server))[0] == 403  # the page by its address, the answers by the header
    assert ask(server, f"/api/alive?at=0&device=0&token={server.token}")[0] == 403
    assert ask(server, "/api/alive?at=0&device=0", X_Tenure_Token="x")[0] == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{}", "127.0.0.1", "127.0.0.1:1", "", "localhost", "[::1]:{}"]
)
def test_other_hosts_are_refused(server, host):
    named = host.format(server.server_port)
    for path in (f"/?token={server.token}", "/api/alive?at=0&device=0"):
        status, body, _ = ask(server, path, host=named, **with_token(server))
        assert status == 403 and b"own host name" in body


def test_localhost_is_its_own_name(server):
    assert ask(server, f"/?token={server.token}", host=f"localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "//etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/etc/passwd",
        "/index.html", "/page/main.js", "/api", "/api/", "/api/../api/alive", "/api/alive/", "/api//alive", "*",
        "http://evil.example/", "//evil.example/api/alive", "/api/alive%00", "/\\etc\\passwd", "///", "//[",
    ],
)  # fmt: skip
def test_path_tricks_lead_nowhere(server, path):
    status, body, _ = ask(server, path, **with_token(server))
    assert status in (400, 403, 404)
    assert len(body) < 200 and b"root:" not in body and path.encode() not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE", "CONNECT", "BREW"])
def test_only_get_is_answered(server, method):
    status, body, headers = ask(server, f"/?token={server.token}", method=method, **with_token(server))
    assert status == 405 and b"tenure</title>" not in body
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(
    "query",
    ["", "at=-1&device=0", "at=x&device=0", "at=1e9&device=0", "at=99999999999999999&device=0", "at=1&device=64",
     "at=١&device=0", "&".join(f"a{n}=1" for n in range(20))],
)  # fmt: skip
def test_questions_that_make_no_sense_are_refused(server, query):
    assert ask(server, f"/api/alive?{query.encode('ascii', 'ignore').decode()}", **with_token(server))[0] == 400
    assert ask(server, "/api/timeline?from=5&to=5", **with_token(server))[0] == 400
    assert ask(server, "/api/lives?site=99999&from=0&to=9", **with_token(server))[0] == 400


def test_garbage_and_silence_do_not_stop_it(server):
    for sent in (
        b"\x00\xff\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET " + b"a" * 70_000,
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 300 + b"\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as link:
            link.sendall(sent)
            link.shutdown(socket.SHUT_WR)
            while link.recv(65536):
                pass
    assert ask(server, f"/?token={server.token}")[0] == 200


def test_it_listens_on_loopback_only(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"


def test_detail_is_what_the_trace_says(server, folder, made):
    trace = tenure.load(folder)
    peak = trace.peak()
    at = round(peak.seconds * 1e6)
    told = json.loads(ask(server, f"/api/alive?at={at}&device=0", **with_token(server))[1])
    assert told["count"] == peak.count
    assert told["buffers"][0]["bytes"] == max(trace.alive(peak.time)["bytes"].to_pylist())
    drawn = json.loads(ask(server, f"/api/timeline?from={at - 20_000}&to={at + 1000}", **with_token(server))[1])
    live = trace.sql("select epoch_us(time) as time from live").to_pylist()
    first = trace.scanned.facts[0]
    inside = {row["time"] - first for row in live if at - 20_000 <= row["time"] - first <= at + 1000}
    assert inside <= set(drawn["moments"])  # every change has its moment
    site = next(n for n, name in enumerate(trace.scanned.words("site")) if f":{made} in" in name)
    lives = json.loads(ask(server, f"/api/lives?site={site}&from=0&to={at * 2}", **with_token(server))[1])
    assert lives["count"] == trace.sql(f"select count(*) as n from buffers where line = {made}").to_pylist()[0]["n"]


def test_zoom_brings_detail_and_buffers_are_told_one_by_one(opened, server, made):
    page = opened(server.url)
    page.keyboard.press("p")
    page.wait_for_selector("#buffers table")
    assert "aten::" in page.locator("#buffers").inner_text()
    before = page.evaluate(
        "echarts.getInstanceByDom(document.getElementById('chart')).getOption().series[0].data.length"
    )
    for _ in range(4):
        page.keyboard.press("+")
    page.until("document.documentElement.dataset.detail")
    after = page.evaluate(
        "echarts.getInstanceByDom(document.getElementById('chart')).getOption().series[0].data.length"
    )
    assert after != before
    page.locator("#sites a", has_text=f"training.py:{made}").first.click()
    page.until("document.getElementById('lives-count')?.textContent.includes('in the visible interval')")
    page.keyboard.press("0")
    page.until("document.documentElement.dataset.detail === ''")


def test_detail_that_comes_after_the_way_back_is_not_shown(opened, server):
    page = opened(server.url)
    held = []
    page.route("**/api/timeline*", lambda route: held.append(route))  # noqa: PLW0108 (a name is set on it)
    page.keyboard.press("+")
    page.keyboard.press("+")
    while not held:
        page.wait_for_timeout(50)
    page.keyboard.press("0")
    page.wait_for_timeout(400)
    with page.expect_response("**/api/timeline*"):
        held[0].continue_()
    page.wait_for_timeout(400)
    assert not page.evaluate("document.documentElement.dataset.detail")


def tenure_(*words, **more):
    return subprocess.run(
        [sys.executable, "-m", "tenure", *map(str, words)], capture_output=True, text=True, check=False, **more
    )


def test_the_verb_writes_and_refuses(folder, tmp_path):
    done = tenure_("view", folder, "-o", tmp_path / "page.html")
    assert (done.returncode, done.stdout) == (0, "") and "the page is" in done.stderr
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!doctype html>")
    for words in (
        ["/no/such"],
        [folder, "--compare", "/no/such"],
        [folder, "-o", "/no/such/page.html"],
        [folder, "--port", "x"],
    ):
        done = tenure_("view", *words)
        assert done.returncode == 2 and "Traceback" not in done.stderr and done.stderr.strip(), words


def test_the_verb_serves_until_it_is_interrupted(folder):
    words = [sys.executable, "-m", "tenure", "view", str(folder)]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child,
        contextlib.ExitStack() as at_end,
    ):
        at_end.callback(child.kill)  # after a failure, too: leaving the block waits for the child
        url = child.stdout.readline().strip()
        port, token = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{32})", url).groups()
        link = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
        link.request("GET", f"/?token={token}")
        assert link.getresponse().read().startswith(b"<!doctype html>")
        taken = tenure_("view", folder, "--port", port)
        assert taken.returncode == 2 and f"cannot use port {port}" in taken.stderr
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 0
        assert "Traceback" not in child.stderr.read()


def test_a_port_may_be_chosen(folder):
    trace = tenure.load(folder)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    with Server(trace, both(trace), port) as made:
        assert made.server_port == port
