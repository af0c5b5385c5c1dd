// Included by torch_recorder.cpp, inside its namespace: words by number, the names of operations and shapes.

struct Shape {
    c10::ScalarType type;
    std::vector<int64_t> sizes;
};

std::mutex &naming = *new std::mutex;
std::unordered_map<std::string, uint16_t> &names = *new std::unordered_map<std::string, uint16_t>;
std::vector<const std::string *> &name_texts = *new std::vector<const std::string *>;  // number 1 is the first
std::unordered_map<uint64_t, uint32_t> &shapes = *new std::unordered_map<uint64_t, uint32_t>;
std::vector<Shape> &shape_texts = *new std::vector<Shape>;

uint16_t add_name(const char *text, const char *&kept) {
    std::lock_guard<std::mutex> lock(naming);
    auto [place, fresh] = names.try_emplace(text, static_cast<uint16_t>(std::min<size_t>(name_texts.size() + 1, 65535)));
    if (fresh) name_texts.push_back(&place->first);
    kept = place->first.c_str();
    return place->second;
}

uint32_t add_shape(uint64_t hash, c10::ScalarType type, c10::IntArrayRef sizes) {
    std::lock_guard<std::mutex> lock(naming);
    auto [place, fresh] = shapes.try_emplace(hash, static_cast<uint32_t>(shape_texts.size() + 1));
    if (fresh) shape_texts.push_back({type, sizes.vec()});
    return place->second;
}

// Each bit of the result depends on each of the number (the end of splitmix64): shapes are told apart by this alone.
inline uint64_t mixed(uint64_t number) {
    number += 0x9E3779B97F4A7C15ULL;
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9ULL;
    number = (number ^ (number >> 27)) * 0x94D049BB133111EBULL;
    return number ^ (number >> 31);
}
