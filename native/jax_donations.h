// Included by jax_recorder.cpp, inside its namespace: what a call was offered to reuse, and did not.
//
// JAX deletes an argument that it reuses. If something else reads the same memory, as numpy.asarray(x) does on the host,
// it takes new memory instead, and says nothing.

struct Offer {  // of a compiled function: the arguments that it may reuse
    std::vector<Py_ssize_t> places;
    PyObject *names = nullptr;  // a frozenset, or none
};
// Those that were called. Each is enrolled when it is made, so an address never means an older one.
std::unordered_map<PyObject *, Offer> &offers = *new std::unordered_map<PyObject *, Offer>;
PyObject *offering = nullptr;  // function -> (places, names) of those arguments
PyObject *refused = nullptr;   // (function, stack, the arrays that were offered, result)

void withdraw(PyObject *function) {
    auto found = offers.find(function);
    if (found == offers.end()) return;
    Py_XDECREF(found->second.names);
    offers.erase(found);
}

// Not known before its first call: JAX says it of a function only after it was made.
const Offer &offer_of(PyObject *function) {
    auto found = offers.find(function);
    if (found != offers.end()) return found->second;
    Offer offer;
    PyObject *answer = PyObject_CallOneArg(offering, function), *places, *names;
    if (answer && PyArg_ParseTuple(answer, "O!O!", &PyTuple_Type, &places, &PyFrozenSet_Type, &names)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(places); i++) offer.places.push_back(PyLong_AsSsize_t(PyTuple_GET_ITEM(places, i)));
        if (PySet_GET_SIZE(names)) offer.names = Py_NewRef(names);
    }
    Py_XDECREF(answer);
    complain();
    return offers.insert_or_assign(function, std::move(offer)).first->second;
}

bool is_offered(const Offer &offer, Py_ssize_t argument, Py_ssize_t positional, PyObject *keywords) {
    if (argument < positional) return std::find(offer.places.begin(), offer.places.end(), argument) != offer.places.end();
    return offer.names && PySet_Contains(offer.names, PyTuple_GET_ITEM(keywords, argument - positional)) == 1;
}
