// What a loaded library calls through its own table, as shared libraries do with what another may define as well: another
// function can be put there, which is how a memory profiler hears of every malloc, too.
#pragma once
#if defined(__linux__)
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#endif

namespace tenure {

struct Call {
    const char *symbol;
    void *instead;
    void *original = nullptr;
    void **slot = nullptr;  // in the table; null where the library does not call it this way
    void *before = nullptr;  // what was there
};

#if defined(__linux__)

// Find all of these; whether each was.
template <size_t N>
bool find_calls(const char *address_in_library, Call (&calls)[N]) {
    Dl_info about;
    if (!dladdr(address_in_library, &about)) return false;
    void *library = dlopen(about.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    link_map *map = nullptr;
    if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return false;
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
    if (!texts || !symbols || !entries || fixed) return false;
    size_t found = 0;
    for (size_t i = 0; i < bytes / sizeof *entries && found < N; i++) {
        const char *name = texts + symbols[entries[i].r_info >> 32].st_name;
        for (Call &call : calls) {
            if (call.slot || std::strcmp(name, call.symbol) != 0) continue;
            call.original = dlsym(library, call.symbol);
            call.slot = reinterpret_cast<void **>(map->l_addr + entries[i].r_offset);
            found += call.original != nullptr;
        }
    }
    return found == N;
}

template <size_t N>
void replace_calls(Call (&calls)[N], bool instead) {
    for (Call &call : calls) {
        if (instead) call.before = *call.slot;
        __atomic_store_n(call.slot, instead ? call.instead : call.before, __ATOMIC_RELEASE);
    }
}

#else
template <size_t N>
bool find_calls(const char *, Call (&)[N]) { return false; }
template <size_t N>
void replace_calls(Call (&)[N], bool) {}
#endif

}  // namespace tenure
