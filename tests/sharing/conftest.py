"""The places where stores can lie. The promises of `promises.py` are tried on each of them."""

import itertools

import pytest

import tenure

_numbers = itertools.count()


class World:
    """A place for one store: `open()` opens it, as often as one likes; all that it opened is closed in the end."""

    def __init__(self, kind, url):
        self.kind, self.url, self.opened = kind, url, []

    def open(self):
        self.opened.append(tenure.Store(self.url))
        return self.opened[-1]

    def close(self):
        for store in self.opened:
            store.close()


# Of each kind, what makes an address from the test's folder. Ray has its cases, and these promises too, in a child
# that has a cluster: `cases_ray.py`.
WORLDS = {
    "memory": lambda folder: f"memory:test-{next(_numbers)}",
    "file": lambda folder: f"file:{folder / 'store'}",
}


@pytest.fixture(params=WORLDS)
def world(request, tmp_path):
    made = World(request.param, WORLDS[request.param](tmp_path))
    yield made
    made.close()
