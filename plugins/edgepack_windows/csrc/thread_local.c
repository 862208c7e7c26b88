// thread_local, which the compiler leaves to a function where no register points to it (-femulated-tls).
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
	size_t size, align;
	_Atomic(uintptr_t) number;  // from 1; 0: not asked for yet
	const void *value;
} Variable;

typedef struct {
	size_t rounds, count;
	void *places[];
} Places;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static atomic_uintptr_t variables;

// What destroys the variables' values runs as such a function, too: theirs is the last round.
static void end(void *given) {
	Places *places = given;
	if (++places->rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
		pthread_setspecific(key, places);
		return;
	}
	for (size_t index = 0; index < places->count; index++) free(places->places[index]);
	free(places);
}

static void begin(void) {
	if (pthread_key_create(&key, end)) abort();
}

static uintptr_t number_of(Variable *variable) {
	uintptr_t number = atomic_load_explicit(&variable->number, memory_order_acquire);
	if (number) return number;
	pthread_once(&once, begin);
	uintptr_t own = atomic_fetch_add(&variables, 1) + 1;
	return atomic_compare_exchange_strong(&variable->number, &number, own) ? own : number;
}

static Places *larger(Places *places, uintptr_t number) {
	size_t count = (number + 15) & ~(size_t)15, before = places ? places->count : 0;
	Places *made = realloc(places, sizeof *made + count * sizeof(void *));
	if (!made) abort();
	memset(made->places + before, 0, (count - before) * sizeof(void *));
	if (!places) made->rounds = 0;
	made->count = count;
	pthread_setspecific(key, made);
	return made;
}

__attribute__((visibility("hidden"))) void *__emutls_get_address(Variable *variable) {
	uintptr_t number = number_of(variable);
	Places *places = pthread_getspecific(key);
	if (!places || number > places->count) places = larger(places, number);
	void **place = &places->places[number - 1];
	if (!*place) {
		size_t align = variable->align < 16 ? 16 : variable->align;
#ifdef LIBRARY
		// A caller's threads come and go: malloc takes again what was freed, and aligns to 16; aligned_alloc takes new memory.
		void *made = align == 16 ? malloc(variable->size) : aligned_alloc(align, (variable->size + align - 1) & ~(align - 1));
#else
		void *made = aligned_alloc(align, (variable->size + align - 1) & ~(align - 1));
#endif
		if (!made) abort();
		if (variable->value) memcpy(made, variable->value, variable->size);
		else memset(made, 0, variable->size);
		*place = made;
	}
	return *place;
}
