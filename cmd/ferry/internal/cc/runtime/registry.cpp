// The kernels and variables of the program: what the code that clang writes for each file registers
// before main, and before static constructors. So everything lives in functions.
#include "runtime.h"

#include <semaphore.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

extern "C" int __cxa_atexit(void (*)(void *), void *, void *);

namespace ferry {
namespace {

// A Wrapper is what clang puts around the device code of a file.
struct Wrapper {
    int magic, version;
    const void *image; // PTX that ends with a zero byte
    void *unused;
};

// A Number is the driver's number of a context. Addresses of contexts are used again.
typedef unsigned long long Number;

// A Name is a kernel or variable of a file.
struct Name {
    const Wrapper *file;
    std::string name;
    size_t bytes; // of a variable
};

// A Managed is a managed variable of a file, and where the host reads its address.
struct Managed {
    const Wrapper *file;
    std::string name;
    void **pointer;
    void *initial; // where the host has it without a module
    size_t bytes;
    Number context; // of the module that has it, or 0
    bool marked = false, said = false;
};

typedef std::pair<Number, const void *> Key;

struct Place {
    CUdeviceptr at;
    size_t bytes;
};

// Registry has what is registered, and what of it is loaded in each context.
struct Registry {
    std::mutex mutex;
    std::vector<const Wrapper *> files;
    std::set<Number> prepared; // contexts that have the modules of all files
    std::vector<Managed> managed;
    std::map<const void *, Name> kernels, variables;
    std::map<const void *, CUlibrary> handles; // kernels of libraries that the program has loaded
    std::map<Key, CUmodule> modules; // by the wrapper of a file
    std::map<Key, CUfunction> functions;
    std::map<Key, Place> places;
};

Registry &registry() {
    static auto *r = new Registry;
    return *r;
}

// find returns the entry of a map, or null.
template <class M> typename M::mapped_type *find(M &map, const typename M::key_type &key) {
    auto i = map.find(key);
    return i == map.end() ? nullptr : &i->second;
}

// exits is posted when the process exits: by a function of the C library, because this one can be closed
// before.
sem_t *exits() {
    static sem_t *const s = [] {
        auto *s = new sem_t;
        sem_init(s, 0, 0);
        return s;
    }();
    return s;
}

// exiting reports whether the process exits, when the functions run that were registered before expectExit.
bool exiting() {
    int posts = 0;
    sem_getvalue(exits(), &posts);
    return posts > 0;
}

void expectExit() { __cxa_atexit((void (*)(void *))(void *)sem_post, exits(), nullptr); }

// mark gives a variable of PTX the attribute of managed memory, and reports whether it is there. Clang
// writes it as other variables: ".visible .global .align 4 .u32 NAME = 5;", or with .weak if it is inline
// or of a template.
bool mark(std::string &text, const std::string &variable) {
    for (const char *begin : {"\n.visible .global ", "\n.weak .global ", "\n.global "})
        for (size_t at = 0; (at = text.find(begin, at)) != std::string::npos; at++) {
            size_t rest = at + strlen(begin), end = text.find(';', rest), name = text.find(" " + variable, rest);
            if (name < end && strchr("[; =", text[name + 1 + variable.size()])) {
                text.insert(rest, ".attribute(.managed) ");
                return true;
            }
        }
    return false;
}

// refuse says once why a managed variable cannot be used, unless quietly is set.
CUresult refuse(Managed &m, const char *why, bool quietly) {
    if (!quietly && !m.said)
        say("the managed variable %s %s", m.name.c_str(), why), m.said = true;
    return CUDA_ERROR_NOT_SUPPORTED;
}

// marked makes text the PTX of a file in which its managed variables have the attribute for that. It
// refuses those that the module of another context has.
CUresult marked(Registry &r, Number context, const Wrapper *file, std::string *text, bool quietly) {
    *text = (const char *)file->image;
    for (Managed &m : r.managed) {
        if (m.file != file)
            continue;
        if (m.context && m.context != context)
            return refuse(m, "is in the memory of another device: the code of its file runs on that device alone", quietly);
        m.marked = mark(*text, m.name);
    }
    return CUDA_SUCCESS;
}

// place moves the managed variables of a file, which a module has, to the module's memory.
CUresult place(Registry &r, Number context, const Wrapper *file, CUmodule module, bool quietly) {
    for (Managed &m : r.managed) {
        CUdeviceptr at;
        size_t bytes;
        if (m.file != file || m.context || CU(cuModuleGetGlobal_v2)(&at, &bytes, module, m.name.c_str()))
            continue;
        if (!m.marked) // the host cannot write there
            return refuse(m, "is not managed in the device code", quietly);
        memcpy((void *)at, m.initial, m.bytes);
        *m.pointer = (void *)at;
        m.context = context;
    }
    return CUDA_SUCCESS;
}

// load returns the module of a file in a context. The caller holds the mutex. A failure is said to the
// user, unless quietly is set.
CUresult load(Registry &r, Number context, const Wrapper *file, CUmodule *module, bool quietly = false) {
    Key key(context, file);
    if (CUmodule *known = find(r.modules, key)) {
        *module = *known;
        return CUDA_SUCCESS;
    }
    char log[4096] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof log};
    bool has = std::any_of(r.managed.begin(), r.managed.end(), [&](const Managed &m) { return m.file == file; });
    std::string text;
    CUresult e = has ? marked(r, context, file, &text, quietly) : CUDA_SUCCESS;
    if (e)
        return e;
    e = CU(cuModuleLoadDataEx)(module, has ? text.c_str() : file->image, 2, options, values);
    if (e && *log && !quietly)
        say("the driver does not load the device code: %s", log);
    if (e)
        return e;
    if (has && (e = place(r, context, file, *module, quietly)))
        return CU(cuModuleUnload)(*module), e;
    r.modules[key] = *module;
    expectExit();
    return CUDA_SUCCESS;
}

// current returns the number of the current context, or 0.
Number current() { return number(nullptr); }

// drop removes the entries of a map that a function chooses.
template <class M, class F> void drop(M &map, F gone) {
    for (auto i = map.begin(); i != map.end();)
        i = gone(*i) ? map.erase(i) : std::next(i);
}

} // namespace

// Drivers before CUDA 12 have no numbers: there the address has to do.
unsigned long long number(CUcontext context) {
    static const auto get = reinterpret_cast<decltype(&cuCtxGetId)>(optional("cuCtxGetId"));
    Number n = 0;
    if (get)
        return get(context, &n) ? 0 : n;
    if (!context)
        CU(cuCtxGetCurrent)(&context);
    return (Number)(size_t)context;
}

// Loading a module waits for the whole context. Here it does so before the program has any work there,
// so that it orders nothing by chance. What fails is tried again, and said, when it is used.
void prepare() {
    Registry &r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    Number context = current();
    if (!r.prepared.insert(context).second)
        return;
    CUmodule module;
    for (const Wrapper *file : r.files)
        load(r, context, file, &module, true);
}

cudaError_t function(const void *kernel, CUfunction *f) {
    Registry &r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    Key key(current(), kernel);
    if (CUfunction *known = find(r.functions, key)) {
        *f = *known;
        return cudaSuccess;
    }
    Name *name = find(r.kernels, kernel);
    if (!name && r.handles.count(kernel))
        return code(CU(cuKernelGetFunction)(f, (CUkernel)kernel));
    if (!name)
        return cudaErrorInvalidDeviceFunction;
    CUmodule module;
    if (CUresult e = load(r, key.first, name->file, &module))
        return code(e);
    if (CUresult e = CU(cuModuleGetFunction)(f, module, name->name.c_str()))
        return e == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidDeviceFunction : code(e);
    r.functions[key] = *f;
    return cudaSuccess;
}

bool hasKernel(const void *kernel) {
    Registry &r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    return find(r.kernels, kernel);
}

const void *kernelOf(CUfunction f) {
    Registry &r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    for (auto &e : r.functions)
        if (e.second == f)
            return e.first.second;
    return f;
}

cudaError_t symbol(const void *variable, CUdeviceptr *p, size_t *bytes) {
    Registry &r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    for (const Managed &m : r.managed) // the program names what the pointer has
        if (variable == *m.pointer) {
            *p = (CUdeviceptr)*m.pointer;
            if (bytes)
                *bytes = m.bytes;
            return cudaSuccess;
        }
    Key key(current(), variable);
    Place *known = find(r.places, key);
    if (!known) {
        Name *name = find(r.variables, variable);
        if (!name)
            return cudaErrorInvalidSymbol;
        CUmodule module;
        if (CUresult e = load(r, key.first, name->file, &module))
            return code(e);
        Place place;
        if (CUresult e = CU(cuModuleGetGlobal_v2)(&place.at, &place.bytes, module, name->name.c_str()))
            return e == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : code(e);
        known = &(r.places[key] = place);
    }
    *p = known->at;
    if (bytes)
        *bytes = known->bytes;
    return cudaSuccess;
}

void registerManaged(void **handle, void **pointer, const char *name, size_t bytes) {
    Registry &r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    r.managed.push_back({(const Wrapper *)handle, name, pointer, *pointer, bytes, 0});
}

void addKernel(CUkernel kernel, CUlibrary library) {
    Registry &r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    r.handles[kernel] = library;
}

void forgetLibrary(CUlibrary library) {
    Registry &r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    drop(r.handles, [&](auto &e) { return e.second == library; });
}

void forget(unsigned long long context) {
    Registry &r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    auto of = [&](auto &e) { return e.first.first == context; };
    drop(r.modules, of), drop(r.functions, of), drop(r.places, of);
    r.prepared.erase(context);
    for (Managed &m : r.managed)
        if (m.context == context)
            *m.pointer = m.initial, m.context = 0;
}

// erase drops what is known of a file, and returns its modules. Another file can have the same addresses
// later, when the library that has this one is closed.
static std::vector<std::pair<Number, CUmodule>> erase(const Wrapper *file) {
    Registry &r = registry();
    std::vector<std::pair<Number, CUmodule>> loaded;
    std::lock_guard<std::mutex> lock(r.mutex);
    auto names = [&](auto &map, auto &found) {
        drop(found, [&](auto &e) {
            Name *name = find(map, e.first.second);
            return name && name->file == file;
        });
        drop(map, [&](auto &e) { return e.second.file == file; });
    };
    names(r.kernels, r.functions), names(r.variables, r.places);
    for (auto &e : r.modules)
        if (e.first.second == file)
            loaded.push_back({e.first.first, e.second});
    drop(r.modules, [&](auto &e) { return e.first.second == file; });
    r.managed.erase(std::remove_if(r.managed.begin(), r.managed.end(), [&](Managed &m) { return m.file == file; }), r.managed.end());
    r.files.erase(std::remove(r.files.begin(), r.files.end(), file), r.files.end());
    return loaded;
}

// At the end of the process the driver ends the modules. Unloading waits for work that nothing waits for.
static void unregister(const Wrapper *file) {
    bool leave = exiting();
    for (auto &[context, module] : erase(file))
        if (!leave)
            unload(context, module);
}

} // namespace ferry

using namespace ferry;

extern "C" {

void **__cudaRegisterFatBinary(void *wrapper) {
    Registry &r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    r.files.push_back((const Wrapper *)wrapper);
    r.prepared.clear(); // for a library that the program opens later
    return (void **)wrapper;
}

void __cudaRegisterFatBinaryEnd(void **) {}

void __cudaUnregisterFatBinary(void **handle) { unregister((const Wrapper *)handle); }

void __cudaRegisterFunction(void **handle, const char *host, char *, const char *name, int, void *, void *, void *, void *, int *) {
    Registry &r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    r.kernels[host] = {(const Wrapper *)handle, name, 0};
}

void __cudaRegisterVar(void **handle, char *host, char *, const char *name, int, size_t bytes, int, int) {
    Registry &r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    r.variables[host] = {(const Wrapper *)handle, name, bytes};
}

} // extern "C"
