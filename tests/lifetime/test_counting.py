"""Bytes are counted once, however many handles, storages or frameworks share them."""

import subprocess
import sys

import tenure


def test_an_alias_by_dlpack_is_the_same_memory(torch):
    before = tenure.memory()
    with tenure.scope("both") as both:
        x = torch.ones(6)
        alias = torch.from_dlpack(x)
        part = torch.from_dlpack(x[2:4])
        assert both.nbytes == 24
        assert tenure.memory().nbytes - before.nbytes == 24
    (remnant,) = both.remains
    assert (remnant.fate, remnant.nbytes) == ("freed", 24)
    assert len(remnant.tensors) >= 3
    assert all(tenure.info(t).state == "disposed" for t in (x, alias, part))


def test_an_alias_that_stays_holds_all_of_it(torch):
    with tenure.scope("both") as both:
        x = torch.ones(6)
        alias = torch.from_dlpack(x)
        storage = x.untyped_storage()
    (remnant,) = both.remains
    assert (remnant.fate, remnant.nbytes) == ("held", 24)
    assert [holder.name for holder in remnant.holders] == ["storage"]
    assert storage.nbytes() == 24 and tenure.info(alias).state == "disposed"


def test_what_dispose_will_free_is_told_for_aliases_as_one(torch):
    x = torch.ones(6)
    alias = torch.from_dlpack(x)
    told = tenure.remains([x, alias])
    assert (told.freed_bytes + told.held_bytes) == 24
    done = tenure.dispose([x, alias])
    assert done.freed_bytes == 24


def test_memory_shared_by_two_frameworks_counts_once(torch, jax):
    before = tenure.memory()
    x = torch.arange(64.0)
    y = jax.numpy.from_dlpack(x)
    assert y.unsafe_buffer_pointer() == x.data_ptr()
    assert tenure.memory().nbytes - before.nbytes == 256


def test_the_heap_is_read_after_asyncio_was_at_work(torch):
    """On Python 3.12 the module of asyncio shows freed objects; who lists them twice never comes to an end."""
    program = """
import asyncio, resource
import torch, tenure
resource.setrlimit(resource.RLIMIT_DATA, (1 << 32, 1 << 32))
async def work():
    for task in [asyncio.ensure_future(asyncio.sleep(0)) for _ in range(5)]:
        await task
asyncio.run(work())
for _ in range(4):
    with tenure.scope() as scope:
        x = torch.ones(6)
        alias, storage = torch.from_dlpack(x), x.untyped_storage()
    print(scope.remains.held_bytes, [holder.name for holder in scope.remains.holders])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["24 ['storage']"] * 4, done.stderr[-2000:]
