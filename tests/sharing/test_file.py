"""The store in a folder: its files, its maps, its forks, and what it says of folders that are none of its own."""

import contextlib
import errno
import json
import os
import pickle
import resource
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

import tenure
from tenure.sharing.store.file import backend, entries, index, layout, presence, upkeep


@pytest.fixture
def url(tmp_path):
    return f"file:{tmp_path / 'store'}"


@pytest.fixture
def store(url):
    with tenure.Store(url) as store:
        yield store


def files(store):
    return sorted(os.listdir(store._backend.tensors))


def in_child(body):
    """Run a function in a fork; what it returned, or the traceback that it ended with."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(writer, json.dumps(body()).encode())
            code = 0
        except BaseException:
            import traceback

            os.write(writer, traceback.format_exc().encode())
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read().decode()
    assert os.waitpid(child, 0)[1] == 0, told
    return json.loads(told)


# ---------------------------------------------------------------------------------------------------- files


def test_any_tool_can_open_the_files(store, np):
    from safetensors import safe_open
    from safetensors.numpy import load_file

    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    for name in ("encoder/w", "ключ/重み", "__metadata__", "a b:c"):
        store[name] = value
        path = store._backend.tensors / store._backend._row(name).file
        ((key, found),) = load_file(path).items()
        assert np.array_equal(found, value)
        with safe_open(path, "np") as opened:
            assert opened.metadata()["tenure.name"] == name
            assert opened.metadata()["tenure.framework"] == "numpy"
        assert key == (name if name != "__metadata__" else "tensor")
        assert np.array_equal(store[name], value)


def test_one_file_for_a_name_and_none_for_old_versions(store, np):
    for number in range(5):
        assert store.put("w", np.full(3, number)) == number + 1
    (file,) = files(store)
    assert file.startswith("w.v5-")
    assert file.endswith(".safetensors")
    store.delete("w")
    assert files(store) == []
    assert store.put("w", np.ones(1)) == 6  # versions never come again


def test_the_bytes_are_aligned_for_all_frameworks(store, np):
    for length in range(1, 70, 7):
        store["x" * length] = np.ones(length)
        assert store["x" * length].ctypes.data % 64 == 0


def test_writing_to_a_tensor_changes_no_file_and_no_other_reader(store, np):
    store["w"] = np.zeros(4)
    first, second = store["w"], store["w"]
    first += 1
    assert second.sum() == 0
    assert store["w"].sum() == 0


def test_tensors_outlive_their_version_their_name_and_the_store(url, np):
    store = tenure.Store(url)
    store["w"] = np.arange(5000)
    old = store["w"]
    store["w"] = np.zeros(1)
    new = store["w"]
    remains = store.delete("w")
    store.close()
    assert np.array_equal(old, np.arange(5000))
    assert new[0] == 0
    assert remains.held_bytes == 8
    (holder,) = remains.holders
    assert f"{os.getpid()}, this one" in str(holder)


def test_delete_says_whether_another_process_maps_it(store, url, np):
    store["w"] = np.arange(1000)
    program = f"import tenure; w = tenure.Store({url!r})['w']; print(w.sum(), flush=True); input(); print(w.sum())"
    child = subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True)
    child.stdout.readline()
    remains = store.delete("w")
    assert remains.freed_bytes == 0
    assert str(child.pid) in str(remains)
    assert child.communicate("\n")[0] == "499500\n"
    store["w"] = np.arange(10)
    assert store.delete("w").freed_bytes == 80


def test_reading_takes_no_memory_before_it_is_touched(store, url, np):
    store["small"], store["large"] = np.ones(1), np.ones(8 << 20)
    program = f"""
import tenure
def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Rss:"))
store = tenure.Store({url!r})
store["small"].sum()
before = resident()
large = store["large"]
read = resident() - before
assert large.sum() == 8 << 20
print(read, resident() - before)
"""
    read, touched = map(int, subprocess.check_output([sys.executable, "-c", program], text=True).split())
    assert read < 1024  # KiB
    assert touched >= 64 << 10


def test_reading_keeps_no_file_open(store, np):
    before = len(os.listdir("/proc/self/fd"))
    store["w"] = np.ones(10)
    kept = [store["w"] for _ in range(300)]
    assert len(os.listdir("/proc/self/fd")) < before + 20
    assert sum(one.sum() for one in kept) == 3000


def test_empty_and_scalar_tensors(store, np):
    for value in (np.zeros((0, 3)), np.array(7), np.zeros((2, 0, 5), np.int8)):
        store["w"] = value
        assert store["w"].shape == value.shape
        assert np.array_equal(store["w"], value)
    assert list(upkeep.check(store._backend)) == []


# ---------------------------------------------------------------------------------------------------- URLs and folders


def test_forms_of_the_url(tmp_path, monkeypatch, np):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for url in ("file:s", "file:./s", f"file:{tmp_path}/s", f"file://{tmp_path}/s", "file:~/s", "file:t/../s?durable"):
        with tenure.Store(url) as store:
            store[f"n{len(store)}"] = np.ones(1)
            assert store.url == f"file:{tmp_path}/s"
    assert len(tenure.Store("file:s")) == 6
    for url in ("file:", "file://host/x", "file:a\0b"):
        with pytest.raises(tenure.StoreError, match="names no folder"):
            tenure.Store(url)


def test_a_folder_that_is_none_of_ours_is_left_as_it_is(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(tenure.StoreError, match="neither a store nor empty: it contains 'thesis.tex'"):
        tenure.Store(f"file:{tmp_path}")
    with pytest.raises(tenure.StoreError, match="no store can be made there"):
        tenure.Store(f"file:{tmp_path}/thesis.tex")
    with pytest.raises(tenure.StoreError, match="no store can be made there"):
        tenure.Store(f"file:{tmp_path}/thesis.tex/below")
    assert os.listdir(tmp_path) == ["thesis.tex"]


def refused(tmp_path, match):
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(tenure.StoreError, match=match):
        tenure.Store(f"file:{tmp_path}")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_another_programs_index_is_left_as_it_is(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "index.sqlite")) as other:
        other.execute("CREATE TABLE entries (name)")
    refused(tmp_path, "belongs to another program; nothing was changed")
    (tmp_path / "index.sqlite").write_bytes(b"")
    refused(tmp_path, "belongs to another program")
    (tmp_path / "index.sqlite").write_bytes(b"no database" * 1000)
    refused(tmp_path, "cannot be read \\(file is not a database\\); nothing was changed")


@pytest.mark.parametrize(("version", "told"), [(index.VERSION + 1, "a newer tenure reads it"), (0, "an older tenure")])
def test_an_index_of_another_version_is_left_as_it_is(store, np, version, told):
    store["w"] = np.ones(1)
    folder = store._backend.folder
    store.close()
    with contextlib.closing(sqlite3.connect(folder / "index.sqlite")) as other:
        other.execute(f"PRAGMA user_version = {version}")
    refused(folder, f"index of version {version}, and this tenure knows version {index.VERSION}: {told}")


def test_a_damaged_index_is_told_and_the_tensors_are_there(store, np):
    for number in range(200):
        store[f"n{number}"] = np.ones(1)
    folder = store._backend.folder
    store.close()
    data = bytearray((folder / "index.sqlite").read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    (folder / "index.sqlite").write_bytes(data)
    with tenure.Store(f"file:{folder}") as again:
        with pytest.raises(tenure.StoreError, match="is damaged .*the tensors are in .*as safetensors files"):
            again["n1"]
        assert len(files(again)) == 200


def test_many_processes_make_one_store_at_once(tmp_path, np):
    for turn in range(3):
        url = f"file:{tmp_path}/s{turn}"
        go = time.monotonic() + 0.15
        children = []
        for number in range(6):
            if not (child := os.fork()):
                code = 1
                try:
                    time.sleep(max(0, go - time.monotonic()))
                    tenure.Store(url)[f"n{number}"] = np.full(4, number)
                    code = 0
                finally:
                    os._exit(code)
            children.append(child)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
        assert {name: int(value[0]) for name, value in tenure.Store(url).items()} == {f"n{n}": n for n in range(6)}


def test_a_folder_that_was_removed_or_replaced_is_noticed(store, np):
    import shutil

    store["w"] = np.ones(1)
    shutil.rmtree(store._backend.folder)
    for use in (lambda: store["w"], lambda: store.put("w", np.ones(1)), lambda: list(store)):
        with pytest.raises(tenure.StoreError, match="removed or replaced|'w' .* was not put: No such file"):
            use()
    with tenure.Store(store.url) as other:
        other["w"] = np.zeros(1)
        with pytest.raises(tenure.StoreError, match="removed or replaced"):
            store["w"] = np.ones(1)


def test_a_closed_store_says_so(store, np):
    store.close()
    with pytest.raises(tenure.StoreError, match="was closed"):
        store["w"]
    store.close()


# ---------------------------------------------------------------------------------------------------- damage


def test_a_damaged_file_is_named_and_the_others_are_read(store, np, tmp_path):
    def cut(path):
        os.truncate(path, 40)

    def flipped(path):
        data = bytearray(path.read_bytes())
        data[-3] ^= 16
        path.write_bytes(data)

    def pickled(path):
        class Evil:
            def __reduce__(self):
                return (open, (str(tmp_path / "executed"), "w"))

        path.write_bytes(pickle.dumps(Evil()).ljust(path.stat().st_size, b"\0"))

    def other(path):
        store["tmp"] = np.ones(1000, np.int64)  # as many bytes, another dtype
        os.replace(store._backend.tensors / next(f for f in files(store) if f.startswith("tmp")), path)

    def header(path):
        data = bytearray(path.read_bytes())
        data[20:24] = b"\xff\xfe{{"
        path.write_bytes(data)

    def folder(path):
        os.unlink(path)
        path.mkdir()

    def unreadable(path):
        os.unlink(path)
        os.symlink(path, path)

    harms = (cut, flipped, pickled, other, header, folder, unreadable, os.unlink)
    for harm in harms:
        store[harm.__name__] = np.arange(1000.0)
    for harm in harms:
        harm(store._backend.tensors / next(f for f in files(store) if f.startswith(f"{harm.__name__}.v")))
        if harm is flipped:
            store[harm.__name__]  # which is not looked at byte by byte
        else:
            with pytest.raises(tenure.StoreError, match=f"the file of '{harm.__name__}' is damaged") as told:
                store[harm.__name__]
            assert str(store._backend.tensors) in str(told.value)
    store["sound"] = np.arange(3)
    damages = {damage.name: damage.text for damage in upkeep.check(store._backend)}
    assert set(damages) - {"tmp"} == {harm.__name__ for harm in harms}
    assert "checksum" in damages["flipped"]
    assert damages["unlink"] == "the file is gone"
    assert not (tmp_path / "executed").exists()
    assert store["sound"].sum() == 3
    store["cut"] = np.ones(2)  # the way out
    assert store["cut"].sum() == 2
    store.delete("unlink")
    assert store.delete("pickled") is not None
    assert "unlink" not in store


def test_an_index_cannot_point_out_of_its_folder(store, np, tmp_path):
    store["w"] = np.ones(1)
    (file,) = files(store)
    os.rename(store._backend.tensors / file, tmp_path / "precious")
    with store._backend.index.writing() as connection:
        connection.execute("UPDATE entries SET file = '../../precious'")
    with pytest.raises(tenure.StoreError, match="is damaged"):
        store["w"]
    store.delete("w")
    assert (tmp_path / "precious").exists()


def test_too_many_open_files_is_no_damage(store, np):
    store["w"] = np.arange(3)
    assert store["w"].sum() == 3

    def body():
        opened = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        mine = store["w"].sum().item()
        with contextlib.suppress(OSError):
            while True:
                opened.append(os.open("/dev/null", os.O_RDONLY))
        try:
            store["w"]
        except tenure.StoreError as error:
            told = str(error)
        for fd in opened:
            os.close(fd)
        return [mine, told, store["w"].sum().item()]

    before, told, after = in_child(body)
    assert (before, after) == (3, 3)
    assert "'w' cannot be read now: Too many open files" in told


def test_gc_takes_what_nobody_needs_and_nothing_else(store, np):
    tensors, users = store._backend.tensors, store._backend.users
    store["w"] = np.ones(1)  # so that it is present
    (tensors / "lost.v3-0123456789ab.safetensors").write_bytes(b"1234")
    (tensors / "1-abcd-0123456789ab.part").write_bytes(b"12")
    (tensors / "mine.safetensors").write_bytes(b"1")
    (users / "1-dead").write_bytes(b"")
    living = store._backend._present().id
    (tensors / entries.part(living, "0123456789ab")).write_bytes(b"12")
    found = {left.file.name: left.nbytes for left in upkeep.gc(store._backend, dry=True)}
    assert found == {"lost.v3-0123456789ab.safetensors": 4, "1-abcd-0123456789ab.part": 2, "1-dead": 0}
    assert {left.file.name for left in upkeep.gc(store._backend)} == set(found)
    assert upkeep.gc(store._backend) == []
    assert len(files(store)) == 3
    assert os.listdir(users) == [living]


def test_gc_while_others_write(store, url, np):
    """Files of puts that are under way are never taken."""
    wrong, stop = [], threading.Event()

    def put(name):
        with tenure.Store(url) as mine:
            number = 0
            while not stop.is_set():
                number += 1
                try:
                    mine[name] = np.full(2000, number)
                    if mine[name][-1] != number:
                        wrong.append(number)
                except Exception as error:
                    wrong.append(error)

    threads = [threading.Thread(target=put, args=(f"n{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        upkeep.gc(store._backend)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


# ---------------------------------------------------------------------------------------------------- no room, no rights


def test_a_file_that_may_not_grow(store, np):
    """As on a full disk, and where a user's files are limited."""
    store["w"] = np.arange(10)

    def body():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        with tenure.Store(store.url) as mine:
            for name in ("w", "new"):
                try:
                    mine[name] = np.zeros(1 << 20)
                except tenure.StoreError as error:
                    told = str(error)
            mine["small"] = np.ones(5)
            return [told, mine["w"].sum().item(), sorted(mine), len(files(mine))]

    told, total, names, count = in_child(body)
    assert "'new' (8.0 MiB) was not put: the disk is full, or a file may not be that large" in told
    assert (total, names, count) == (45, ["small", "w"], 2)


def test_an_index_that_may_not_grow(store, np):
    store["w"] = np.arange(10)

    def body():
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
        told, done = "", []
        with tenure.Store(store.url) as mine:
            for number in range(2000):
                try:
                    mine[f"{number:0500}"] = np.ones(1)
                    done.append(number)
                except tenure.StoreError as error:
                    told = str(error)
                    break
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            there = sorted(int(name) for name in mine if name != "w")
            mine["after"] = np.ones(1)
            return [told, there == done, mine["w"].sum().item(), len(files(mine)) - len(mine)]

    told, same, total, orphans = in_child(body)
    assert "nothing was changed" in told
    assert (same, total, orphans) == (True, 45, 0)


def test_a_full_disk(np, tmp_path):
    """A real one, of two megabytes, where this user may mount one."""
    program = f"""
import numpy as np, tenure, os
store = tenure.Store("file:{tmp_path}/disk/s")
store["w"] = np.arange(10)
done, told = [], []
for number in range(400):
    try:
        store[f"n{{number}}"] = np.full(3000, number)
        done.append(number)
    except tenure.StoreError as error:
        told.append(str(error))
assert told and all("the disk is full" in one or "nothing was changed" in one for one in told), told[:3]
assert sorted(store) == sorted(["w"] + [f"n{{number}}" for number in done])
assert all((store[f"n{{number}}"] == number).all() for number in done)
assert store["w"].sum() == 45
for number in done[:10]:
    store.delete(f"n{{number}}")
store["after"] = np.ones(100)
assert store["after"].sum() == 100
assert len(os.listdir(store._backend.tensors)) == len(store)
print(told[0])
"""
    (tmp_path / "disk").mkdir()
    mount = f"mount -t tmpfs -o size=2m none {tmp_path}/disk && exec {sys.executable} -c '{program}'"
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount")
    done = subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "the disk is full" in done.stdout


def as_nobody(body):
    def unprivileged():
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        return body()

    return in_child(unprivileged)


@pytest.fixture
def locked(store, np, tmp_path):
    """A store that may only be read, below folders that all may enter."""
    store["w"] = np.arange(10)
    folder = store._backend.folder
    path = folder
    while path != path.parent:  # pytest's folders are for its user alone
        with contextlib.suppress(PermissionError):
            path.chmod(path.stat().st_mode | 0o055)
        path = path.parent
    (folder / "index.sqlite").chmod(0o444)
    folder.chmod(0o555)
    yield store
    folder.chmod(0o755)


@pytest.mark.parametrize("writer", [True, False], ids=["while another writes", "alone"])
def test_a_folder_that_may_only_be_read(locked, np, writer):
    if not writer:
        locked.close()

    def body():
        with tenure.Store(locked.url) as mine:
            told = []
            for use in (
                lambda: mine.put("w", np.ones(1)),
                lambda: mine.delete("w"),
                lambda: mine.lease("w"),
            ):
                with pytest.raises(tenure.StoreError) as error:
                    use()
                told.append(str(error.value))
            return [told, mine["w"].sum().item(), list(mine), mine.version("w")]

    told, *rest = as_nobody(body)
    assert rest == [45, ["w"], 1]
    assert all(f"{locked.url} is read-only for this process" in one for one in told)


def test_a_reader_sees_what_the_writer_puts(locked, np):
    reader, writer = os.pipe()

    def body():
        with tenure.Store(locked.url) as mine:
            first = mine["w"].sum().item()
            os.read(reader, 1)
            return [first, mine["w"].sum().item()]

    timer = threading.Timer(0.3, lambda: (locked.put("w", np.ones(3)), os.write(writer, b"x")))
    timer.start()
    assert as_nobody(body) == [45, 3]
    timer.join()


def test_a_store_that_cannot_be_made(tmp_path):
    tmp_path.chmod(0o555)

    def body():
        with pytest.raises(tenure.StoreError) as error:
            tenure.Store(f"file:{tmp_path}/s")
        return str(error.value)

    assert "no store can be made there (Permission denied" in as_nobody(body)
    tmp_path.chmod(0o755)


# ---------------------------------------------------------------------------------------------------- forks and leases


def test_a_store_goes_through_a_fork(store, np):
    store["w"] = np.arange(3)
    lease = store.lease("w")

    def body():
        nonlocal lease
        store["child"] = store["w"] * 2
        lease = None  # the child's copy: the promise is the parent's
        return len(store.leases("w"))

    assert in_child(body) == 1
    assert len(store.leases("w")) == 1
    assert store["child"].tolist() == [0, 2, 4]
    with pytest.raises(tenure.StoreError, match="is in use and was not deleted"):
        store.delete("w")
    lease.release()
    store.delete("w")


def test_nothing_is_lost_when_the_parent_goes_first(store, np):
    """The child has its own locks: with the parent's, others would clear the log away under its hands."""
    store["w"] = np.ones(3)
    go, told = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        os.close(go[1])  # so that the parent's end is the child's
        try:
            assert store["w"].sum() == 3
            os.write(told[1], b"x")
            for number in range(3):
                os.read(go[0], 1)
                assert store.put("w", np.full(3, number)) == number + 2
                os.write(told[1], b"x")
            code = 0
        finally:
            os._exit(code)
    os.read(told[0], 1)
    store.close()
    for number in range(3):
        os.write(go[1], b"x")
        assert os.read(told[0], 1) == b"x"
        program = f"import tenure; print(tenure.Store({store.url!r}).read('w'))"
        assert f"[{number}, {number}, {number}]" in subprocess.check_output([sys.executable, "-c", program], text=True)
    assert os.waitpid(child, 0)[1] == 0


def test_a_fork_while_others_write(store, np):
    """Children of a process whose threads are in the middle of a put."""
    stop = threading.Event()

    def put(name):
        while not stop.is_set():
            store[name] = np.ones(500)

    threads = [threading.Thread(target=put, args=(f"n{number}",)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(8):
            assert in_child(lambda: store.put(f"c{number}", np.full(3, number))) == 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [int(store[f"c{number}"][0]) for number in range(8)] == list(range(8))
    assert list(upkeep.check(store._backend)) == []


def test_leases_of_the_dead_do_not_count(store, url, np):
    store["w"] = np.ones(3)
    program = f"import tenure; l = tenure.Store({url!r}).lease('w'); print(1, flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1)
    child.stdout.readline()
    (by,) = store.leases("w")
    assert by.process == child.pid
    with pytest.raises(tenure.StoreError, match=f"process {child.pid}"):
        store.delete("w", wait=0.05)
    child.kill()
    child.communicate()
    assert store.leases("w") == []
    store.delete("w", wait=0)


def test_delete_waits_for_the_last_lease(store, np):
    store["w"] = np.ones(3)
    lease = store.lease("w")
    timer = threading.Timer(0.1, lease.release)
    timer.start()
    assert len(store.delete("w", wait=60)) == 1
    timer.join()


def test_a_lease_may_end_in_the_middle_of_a_put(store, np):
    """The garbage collector runs when it likes, also where this thread holds the write lock."""
    store["w"] = np.ones(3)
    lease = store.lease("w")
    with store._backend._writing():
        del lease
    assert store.leases("w") == []


def test_a_lease_ends_with_its_store(store, url, np):
    store["w"] = np.ones(3)
    other = tenure.Store(url)
    lease = other.lease("w")
    assert len(store.leases("w")) == 1
    other.close()
    assert store.leases("w") == []
    lease.release()
    assert np.array_equal(lease.value, np.ones(3))


def test_a_lease_that_is_interrupted_is_none(store, np):
    """Wherever the interrupt comes, also between the commit and the reading: nobody would have the token to end it."""
    store["w"] = np.ones(3)
    code = backend.FileStore.lease.__code__
    stopped = []

    def interrupt(frame, event, argument):
        if frame.f_code is not code:
            return interrupt if event == "call" and frame.f_back.f_code is code else None
        if event == "line" and frame.f_lineno == line:
            sys.settrace(None)
            stopped.append(line)
            raise KeyboardInterrupt
        return interrupt

    for line in sorted({line for *_, line in code.co_lines() if line}):
        sys.settrace(interrupt)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                store.lease("w").release()
        finally:
            sys.settrace(None)
        assert store.leases("w") == [], f"line {line}"
    assert len(stopped) > 5


def test_what_stopped_a_lease_is_told_not_what_stopped_its_end(store, np, monkeypatch):
    store["w"] = np.ones(3)

    def read(*_):
        monkeypatch.setattr(backend.FileStore, "_release_all", full)
        raise KeyboardInterrupt

    def full(_):
        raise tenure.StoreError("the disk is full")

    monkeypatch.setattr(backend.FileStore, "_read", read)
    with pytest.raises(KeyboardInterrupt):
        store.lease("w")


def test_presence_ends_with_its_object(tmp_path):
    one = presence.Presence(tmp_path)
    assert presence.alive(tmp_path, one.id)
    kept = one.id
    del one
    assert not presence.alive(tmp_path, kept)
    assert os.listdir(tmp_path) == []


def test_a_late_writer_is_told_before_it_writes_much(store, np, monkeypatch):
    store["w"] = np.ones(3)
    monkeypatch.setattr(entries, "written", lambda *_, **__: pytest.fail("written for nothing"))
    with pytest.raises(tenure.StoreError, match="was expected to be at version 4, but it is at version 1"):
        store.put("w", np.ones(3), expect=4)


def test_errors_of_the_disk_are_told(store, np, monkeypatch):
    def broken(*_, **__):
        raise OSError(errno.EIO, "Input/output error", "disk")

    monkeypatch.setattr(layout, "synced", broken)
    with tenure.Store(f"{store.url}?durable") as durable, pytest.raises(tenure.StoreError, match="Input/output error"):
        durable["w"] = np.ones(3)
    assert files(store) == []
    assert isinstance(store._backend, backend.FileStore)
    assert list(store) == []


def checked(store):
    return {damage.name: damage.text for damage in upkeep.check(store._backend)}


def test_pages_that_changed_places_are_found(store, np):
    store.put("a", np.arange(1 << 17, dtype=np.int64))  # 1 MiB
    store.put("signs", np.array([1.0, -1.0] * 4096 + [1.0] * 8192))
    for name in ("a", "signs"):
        row = store._backend._row(name)
        path = store._backend.tensors / row.file
        data = bytearray(path.read_bytes())
        first, second = row.start, row.start + (64 << 10)  # both in one block of 256 KiB
        data[first : first + 4096], data[second : second + 4096] = (
            data[second : second + 4096],
            data[first : first + 4096],
        )
        path.write_bytes(data)
    assert set(checked(store).values()) == {"its bytes are not those that were put (the checksum differs)"}
    assert set(checked(store)) == {"a", "signs"}


def test_checksums_of_every_age_are_checked(store, np, monkeypatch):
    from tenure.frameworks.exchanging.numpy_sums import Sum
    from tenure.sharing.store.file import sums

    value = np.arange(100_000, dtype=np.float32)
    store.put("now", value)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "xxhash", None)
        store.put("without", value)
    store.put("early", value)
    early = sums.of(memoryview(value).cast("B"), Sum())
    change(store, "UPDATE entries SET checksum = ? WHERE name = 'early'", early)
    kinds = {name: store._backend._row(name).checksum.partition(":")[0] for name in ("now", "without", "early")}
    assert kinds == {"now": "xxh3", "without": "crc32", "early": early}
    assert checked(store) == {}
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "xxhash", None)
        assert checked(store) == {"now": "its checksum needs xxhash, which is not installed: pip install xxhash"}
    for name in kinds:
        row = store._backend._row(name)
        path = store._backend.tensors / row.file
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    assert set(checked(store)) == set(kinds)
    change(store, "UPDATE entries SET checksum = 'sha9:00' WHERE name = 'now'")
    assert checked(store)["now"] == "its checksum is of a kind that this tenure does not know ('sha9')"


def change(store, statement, *values):
    with store._backend.index.writing() as connection:
        connection.execute(statement, values)


WRONG = {
    "version": [b"x", "x", -1, 1.5],
    "file": [5.5, b"x", "..", "a\0b"],
    "framework": [b"x", None, "evil"],
    "dtype": [b"x", None, "F9"],
    "shape": ["5", "[1.5]", "[-1]", '["a"]', "{}", "[" * 100_000, b"[1]", None, "[true]", f"[{10**30}]", "[1]" + "0" * 9],
    "nbytes": ["x", None, -5],
    "start": ["x", None, -8, 1 << 40, 0],
    "checksum": [b"x", None, ""],
    "put": ["5", "{}", '{"site": 5}', '{"site": {"file": 5, "line": "x"}, "process": 1}', '{"site": null, "time": []}', None, b"{}"],
}  # fmt: skip


@pytest.mark.parametrize("column", WRONG)
def test_wrong_types_in_the_index_are_damage_of_their_own_name(store, np, column):
    store.put("good", np.arange(10))
    for value in WRONG[column]:
        store.put("bad", np.arange(10))
        file = store._backend._row("bad").file
        change(store, f"UPDATE entries SET {column} = ? WHERE name = 'bad'", value)
        assert store.get("good").tolist() == list(range(10))
        assert column == "framework" or list(checked(store)) == ["bad"] or value in (-5,)
        for call in (store.get, store.__contains__, store.delete, lambda name: store.put(name, np.arange(3))):
            with contextlib.suppress(tenure.TenureError):
                call("bad")
        change(store, "DELETE FROM entries WHERE name = 'bad'")
        (store._backend.tensors / file).unlink(missing_ok=True)


def test_wrong_rows_beside_the_entries(store, np):
    store.put("a", np.arange(10))
    for holder, by in ((5, "{}"), ("../../x", "{}"), (b"x", "{}"), ("x", "5"), ("x", b"5")):
        change(store, "INSERT INTO leases VALUES ('t', 'a', ?, ?)", holder, by)
        with pytest.raises(tenure.StoreError, match="is damaged"):
            store.delete("a")
        change(store, "DELETE FROM leases")
    change(store, "INSERT INTO entries (name, version, file) VALUES (?, 1, 'x')", b"\xff")
    with pytest.raises(tenure.StoreError, match="is damaged"):
        list(store)
    assert "column name of the index contains" in next(iter(checked(store).values()))


def test_a_file_that_somebody_cuts_off_is_found_without_mapping_it(store, np):
    store.put("a", np.zeros(1 << 16))
    path = store._backend.tensors / store._backend._row("a").file
    os.truncate(path, path.stat().st_size - 4096)
    (text,) = checked(store).values()
    assert text.startswith("it has ")
    path.unlink()
    os.mkfifo(path)
    assert list(checked(store)) == ["a"]


def test_a_file_that_gets_shorter_while_it_is_checked_ends_nobody(store, np, monkeypatch):
    from tenure.sharing.store.file import sums

    store.put("a", np.zeros(1 << 18))
    path = store._backend.tensors / store._backend._row("a").file

    class Cutting(sums._Xxh3):
        def add(self, block):
            os.truncate(path, 4096)
            super().add(block)

    monkeypatch.setattr(sums, "_Xxh3", Cutting)
    assert checked(store) == {"a": "it got shorter while it was read"}
