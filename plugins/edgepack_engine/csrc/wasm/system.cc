#include "wasm/system.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>

#include "base/file.h"

namespace embed {

Lent lent;

File::~File() {}

int File::open(const std::string &) {
    size_ = lent.size;
    return lent.data ? 0 : ENOENT;
}

bool File::read(uint64_t place, void *to, size_t size) const {
    if (place > lent.size || size > lent.size - place) return false;
    memcpy(to, lent.data + place, size);
    return true;
}

}  // namespace embed

namespace {

constexpr size_t PAGE = 65536;

}  // namespace

extern "C" {

// It lies in memory already, and stays when nobody maps it any more.
void *mmap(void *, size_t, int, int, int, off_t) { return const_cast<uint8_t *>(embed::lent.data); }
int munmap(void *, size_t) { return 0; }
int madvise(void *, size_t, int) { return 0; }

// There are no threads.
int pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) { return EAGAIN; }
int pthread_join(pthread_t, void **) { return ESRCH; }

_Thread_local int errno;
char *strerror(int) { return const_cast<char *>("it is not there"); }
void abort() { __builtin_trap(); }

// What emmalloc asks for, whole pages behind those that there are.
void *sbrk(intptr_t size) {
    const size_t before = __builtin_wasm_memory_grow(0, size_t(size) / PAGE);
    return reinterpret_cast<void *>(before == SIZE_MAX ? SIZE_MAX : before * PAGE);
}

// WebAssembly has an instruction for each of the first three.
void *memcpy(void *to, const void *from, size_t size) { return __builtin_memcpy(to, from, size); }
void *memmove(void *to, const void *from, size_t size) { return __builtin_memmove(to, from, size); }
void *memset(void *to, int byte, size_t size) { return __builtin_memset(to, byte, size); }

int memcmp(const void *one, const void *other, size_t size) {
    auto first = static_cast<const uint8_t *>(one), second = static_cast<const uint8_t *>(other);
    for (size_t at = 0; at < size; at++)
        if (first[at] != second[at]) return first[at] - second[at];
    return 0;
}

size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length]) length++;
    return length;
}

}  // extern "C"

void *operator new(size_t size) {
    void *made = malloc(size);
    return made ? made : (abort(), nullptr);
}
void *operator new[](size_t size) { return operator new(size); }
void operator delete(void *place) noexcept { free(place); }
void operator delete[](void *place) noexcept { free(place); }
void operator delete(void *place, size_t) noexcept { free(place); }
void operator delete[](void *place, size_t) noexcept { free(place); }

// Of libc++, what is no template; one thread waits for nobody.
_LIBCPP_BEGIN_NAMESPACE_STD

template class basic_string<char>;
template string operator+(const char *, const string &);
void __libcpp_verbose_abort(const char *, ...) { abort(); }
mutex::~mutex() noexcept {}
void mutex::lock() {}
void mutex::unlock() noexcept {}
condition_variable::~condition_variable() {}
void condition_variable::notify_all() noexcept {}
void condition_variable::wait(unique_lock<mutex> &) noexcept { abort(); }

string to_string(unsigned long number) {
    string digits(1, char('0' + number % 10));
    while (number /= 10) digits.insert(digits.begin(), char('0' + number % 10));
    return digits;
}
string to_string(unsigned number) { return to_string(static_cast<unsigned long>(number)); }

_LIBCPP_END_NAMESPACE_STD
