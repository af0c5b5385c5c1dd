// What an array of JAX is, and whether another has its bytes: included by jax_recorder.cpp, inside its namespace.

constexpr int32_t kIncomplete = -2;

// Arrays of a kind have their description in common: it is known by the addresses of its two parts, which are held.
struct Key {
    PyObject *aval, *sharding;
    bool operator==(const Key &) const = default;
};
struct Hash {
    size_t operator()(const Key &key) const { return reinterpret_cast<size_t>(key.aval) * 31 ^ reinterpret_cast<size_t>(key.sharding); }
};
std::unordered_map<Key, What, Hash> &described = *new std::unordered_map<Key, What, Hash>;

void forget_descriptions() {
    std::unordered_map<Key, What, Hash> old;
    old.swap(described);
    for (auto &[key, what] : old) {
        Py_DECREF(key.aval);
        Py_DECREF(key.sharding);
    }
}

// What this array is, or that it is not complete.
What what_is(PyObject *array) {
    PyObject *aval = PyObject_GetAttr(array, s_aval);
    PyObject *sharding = aval ? PyObject_GetAttr(array, s_sharding) : nullptr;
    What what{kIncomplete, 0};
    if (sharding) {
        Key key{aval, sharding};
        if (auto known = described.find(key); known != described.end()) {
            what = known->second;
        } else {
            if (described.size() >= kDescribed) forget_descriptions();
            PyObject *parts = PyTuple_Pack(2, aval, sharding);
            what = parts ? told_of(parts) : What{-1, 0};
            Py_XDECREF(parts);
            if (described.emplace(key, what).second) Py_INCREF(aval), Py_INCREF(sharding);
        }
    }
    Py_XDECREF(aval);
    Py_XDECREF(sharding);
    PyErr_Clear();
    return what;
}

thread_local bool asking = false;  // for which JAX makes arrays, as for reading

bool says(PyObject *array, PyObject *method) {
    PyObject *answer = PyObject_CallMethodNoArgs(array, method);
    bool yes = answer == Py_True;
    Py_XDECREF(answer);
    PyErr_Clear();
    return yes;
}

// JAX waits, with the GIL, until the bytes are computed before it gives their address. What computes them may itself need
// the GIL, for a callback, and so may what is taking them as a donation: only an array that is done is asked.
bool is_done(PyObject *array) { return !says(array, s_is_deleted) && says(array, s_is_ready); }

PyObject *address_of(PyObject *array) {
    if (!is_done(array)) return nullptr;
    asking = true;
    PyObject *address = PyObject_CallMethodNoArgs(array, s_pointer);
    asking = false;
    if (!address) PyErr_Clear();  // it lies on several devices
    return address;
}

std::vector<Life *> &late = *new std::vector<Life *>;  // that are not computed yet; held
constexpr int64_t kLatest = 500000000;                 // nanoseconds

bool has_peer(const Life *life) { return life->bytes && peers.count(life->bytes); }

void put_off(Life *life) {
    Py_INCREF(reinterpret_cast<PyObject *>(life));
    late.push_back(life);
}

// JAX makes a second array of the same bytes when one is to be put where it is already. Whether this is one; only those
// that no compiled call gave are asked, and only where there is another of the same size.
bool is_twin(Life *life, PyObject *array) {
    auto first = peers.find(life->bytes);
    if (!life->bytes || first == peers.end()) return false;
    PyObject *mine = address_of(array);
    bool found = false;
    for (Life *other = first->second; mine && other && !found; other = other->peer_after) {
        PyObject *candidate = array_of(other);
        if (!candidate || root_of(other)->ended) continue;
        Py_INCREF(candidate);
        PyObject *theirs = address_of(candidate);
        if (theirs && PyObject_RichCompareBool(mine, theirs, Py_EQ) == 1) {
            share(life, root_of(other));
            found = true;
        }
        Py_XDECREF(theirs);
        Py_INCREF(reinterpret_cast<PyObject *>(other));  // if ours is the last reference to the array, its life would leave the others
        Py_DECREF(candidate);
        bool left = !other->after;
        Py_DECREF(reinterpret_cast<PyObject *>(other));
        if (left) break;
    }
    Py_XDECREF(mine);
    PyErr_Clear();
    return found;
}

// An array on several devices makes one for each of them when it is read, and these have its traceback. They are counted
// with it, and have no lives of their own.
std::unordered_multimap<PyObject *, Life *> &wholes = *new std::unordered_multimap<PyObject *, Life *>;  // both are held
size_t most_wholes = kDescribed;

void forget_wholes(bool all) {
    std::vector<std::pair<PyObject *, Life *>> old;
    for (auto at = wholes.begin(); at != wholes.end();) {
        if (!all && array_of(at->second)) {
            ++at;
            continue;
        }
        old.emplace_back(*at);
        at = wholes.erase(at);
    }
    most_wholes = std::max(kDescribed, 2 * wholes.size());
    for (auto &[traceback, life] : old) {
        Py_DECREF(traceback);
        Py_DECREF(reinterpret_cast<PyObject *>(life));
    }
}

// Whether this is one of those; one on several devices is remembered.
bool is_part(Life *life, PyObject *array, bool several) {
    if (!several && wholes.empty()) return false;
    PyObject *traceback = PyObject_GetAttr(array, s_traceback);
    bool found = false;
    if (traceback && traceback != Py_None && several) {
        if (wholes.size() >= most_wholes) forget_wholes(false);
        wholes.emplace(Py_NewRef(traceback), life);
        Py_INCREF(reinterpret_cast<PyObject *>(life));
    } else if (traceback && traceback != Py_None) {
        auto [from, to] = wholes.equal_range(traceback);
        for (; from != to && !found; ++from) found = array_of(from->second) != nullptr;
    }
    Py_XDECREF(traceback);
    PyErr_Clear();
    return found;
}

// Whether it is done with.
bool settle(Life *life, PyObject *array) {
    if (!life->what) {
        What what = what_is(array);
        if (what.number == kIncomplete) return false;
        if (what.number <= 0 || is_part(life, array, what.several)) return true;
        life->what = what.number;
        life->bytes = what.bytes;
    }
    life->kind = !life->called;
    if (!life->called && has_peer(life) && !is_done(array)) return put_off(life), true;
    if (life->called || !is_twin(life, array)) tell_birth(life);
    join_peers(life);
    return true;
}

// Those that were put off: each waits until it is computed, or for so long that its row would come too late to be sorted.
void settle_late(bool last) {
    std::vector<Life *> taken;
    taken.swap(late);
    for (Life *life : taken) {
        PyObject *array = array_of(life);
        bool over = !array || !active || life->settled || life->number <= first_number;  // an end tells the birth, too
        if (!over) {
            Py_INCREF(array);
            over = last || is_done(array) || now() - life->born > kLatest;
            if (over) {
                if (!is_twin(life, array)) tell_birth(life);
                join_peers(life);
            }
            Py_DECREF(array);
        }
        if (over) Py_DECREF(reinterpret_cast<PyObject *>(life));
        else late.push_back(life);
    }
}

void settle() {
    if (waiting.empty()) return;
    std::vector<Life *> taken;  // Python code may run below, and arrays be born
    taken.swap(waiting);
    for (Life *life : taken) {
        PyObject *array = array_of(life);
        bool done = !array || !active || life->number <= first_number;
        if (!done) {
            Py_INCREF(array);
            done = settle(life, array);
            if (!done) waiting.push_back(life);
            Py_DECREF(array);
        }
        if (done) Py_DECREF(reinterpret_cast<PyObject *>(life));
    }
}

