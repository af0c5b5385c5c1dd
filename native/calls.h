// What a loaded library calls through its own table, as shared libraries do with what another may define as well: another
// function can be put there, which is how a memory profiler hears of every malloc, too.
#pragma once
#if defined(__linux__)
#include <dlfcn.h>
#include <link.h>
#endif
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace tenure {

// Each of the ways into torch that no interface of its own offers can be switched off, by a variable of this name set to 0.
inline bool is_on(const char *name) {
    const char *set = std::getenv(name);
    return !set || std::strcmp(set, "0") != 0;
}

struct Call {
    const char *symbol;
    void *instead;
    void *original = nullptr;
    void **slot = nullptr;  // in the table; null where the library does not call it this way
    void *before = nullptr;  // what was there
};

#if defined(__linux__)

#if defined(__x86_64__)
constexpr unsigned kJumpSlot = R_X86_64_JUMP_SLOT;
#elif defined(__aarch64__)
constexpr unsigned kJumpSlot = R_AARCH64_JUMP_SLOT;
#else
constexpr unsigned kJumpSlot = 0;  // no relocation of this kind is looked for, and none is found
#endif

// Where a loaded library lies.
struct Library {
    const void *inside;  // an address in it
    ElfW(Addr) base = 0;
    const ElfW(Phdr) *parts = nullptr;
    size_t count = 0;
    char *own = nullptr;  // its thread-local data of this thread
    size_t own_size = 0;

    explicit Library(const void *address) : inside(address) {
        dl_iterate_phdr([](dl_phdr_info *about, size_t size, void *mine) { return static_cast<int>(static_cast<Library *>(mine)->is(about, size)); }, this);
    }
    // Whether all of this lies in a part with such rights (PF_W, PF_X), and none of it in what is made read-only later.
    bool has(const void *address, size_t size, unsigned rights) const {
        auto start = reinterpret_cast<ElfW(Addr)>(address);
        auto holds = [&](const ElfW(Phdr) &part) { return start >= base + part.p_vaddr && start + size <= base + part.p_vaddr + part.p_memsz; };
        bool found = false;
        for (size_t i = 0; i < count; i++) {
            if (parts[i].p_type == PT_GNU_RELRO && (rights & PF_W) && holds(parts[i])) return false;
            found |= parts[i].p_type == PT_LOAD && (parts[i].p_flags & rights) == rights && holds(parts[i]);
        }
        return found;
    }

  private:
    bool is(dl_phdr_info *about, size_t size) {
        base = about->dlpi_addr, parts = about->dlpi_phdr, count = about->dlpi_phnum;
        if (!has(inside, 1, 0)) return base = 0, parts = nullptr, count = 0, false;
        for (size_t i = 0; i < count; i++)
            if (parts[i].p_type == PT_TLS && size > offsetof(dl_phdr_info, dlpi_tls_data))
                own = static_cast<char *>(about->dlpi_tls_data), own_size = parts[i].p_memsz;
        return true;
    }
};

// Find all of these; whether each was, and is as expected: a writable entry of the table of calls, which leads to the
// library's own function, or to the code in it that will look that up.
template <size_t N>
bool find_calls(const char *address_in_library, Call (&calls)[N]) {
    Dl_info about;
    if (!dladdr(address_in_library, &about)) return false;
    void *library = dlopen(about.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    link_map *map = nullptr;
    if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return false;
    const Library whole(address_in_library);
    auto at = [&](ElfW(Addr) value) { return reinterpret_cast<const char *>(value < map->l_addr ? map->l_addr + value : value); };
    const char *texts = nullptr;
    const ElfW(Sym) *symbols = nullptr;
    const ElfW(Rela) *entries = nullptr;
    size_t bytes = 0;
    bool fixed = false;  // no longer writable since the library was loaded
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB) texts = at(entry->d_un.d_ptr);
        if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym) *>(at(entry->d_un.d_ptr));
        if (entry->d_tag == DT_JMPREL) entries = reinterpret_cast<const ElfW(Rela) *>(at(entry->d_un.d_ptr));
        if (entry->d_tag == DT_PLTRELSZ) bytes = entry->d_un.d_val;
        if (entry->d_tag == DT_PLTREL && entry->d_un.d_val != DT_RELA) return false;
        if (entry->d_tag == DT_BIND_NOW || (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_BIND_NOW)) fixed = true;
        if (entry->d_tag == DT_FLAGS_1 && entry->d_un.d_val & DF_1_NOW) fixed = true;
    }
    if (!texts || !symbols || !entries || fixed || map->l_addr != whole.base || sizeof(void *) != 8) return false;
    size_t found = 0;
    for (size_t i = 0; i < bytes / sizeof *entries && found < N; i++) {
        const char *name = texts + symbols[entries[i].r_info >> 32].st_name;
        for (Call &call : calls) {
            if (call.slot || std::strcmp(name, call.symbol) != 0 || (entries[i].r_info & 0xffffffff) != kJumpSlot) continue;
            call.original = dlsym(library, call.symbol);
            auto slot = reinterpret_cast<void **>(map->l_addr + entries[i].r_offset);
            if (!call.original || !whole.has(call.original, 1, PF_X) || !whole.has(slot, sizeof *slot, PF_W)) continue;
            void *leads = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
            if (leads != call.original && !whole.has(leads, 1, PF_X)) continue;
            call.slot = slot;
            found++;
        }
    }
    return found == N;
}

// What others have put there since stays, and ours below it, which then only passes on.
template <size_t N>
void replace_calls(Call (&calls)[N], bool instead) {
    for (Call &call : calls) {
        void *there = __atomic_load_n(call.slot, __ATOMIC_ACQUIRE);
        if (instead && there != call.instead) call.before = there;
        if (instead || there == call.instead) __atomic_store_n(call.slot, instead ? call.instead : call.before, __ATOMIC_RELEASE);
    }
}

#else
struct Library {  // of whose parts nothing is known
    char *own = nullptr;
    size_t own_size = 0;
    explicit Library(const void *) {}
};
template <size_t N>
bool find_calls(const char *, Call (&)[N]) { return false; }
template <size_t N>
void replace_calls(Call (&)[N], bool) {}
#endif

}  // namespace tenure
