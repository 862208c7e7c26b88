/* Loaded before a program (LD_PRELOAD), takes down in the file LAUNCHED_KERNELS which kernels it launches by CUDA's runtime, each once:
   "0 NAME", or the error's number where the launch is refused. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { unsigned x, y, z; } dim3;
typedef struct { const void *place; const char *name; int said; } named;

enum { MOST = 1 << 16 };
static named functions[MOST], handles[MOST];
static const char *refused = "?";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *next(const char *name) {
  static void *runtime;
  if (!runtime) runtime = dlopen("libcudart.so.13", RTLD_LAZY | RTLD_NOLOAD);
  void *found = runtime ? dlsym(runtime, name) : dlsym(RTLD_NEXT, name);
  if (!found) abort();
  return found;
}

static named *place_of(named *table, const void *place) {
  size_t at = ((size_t)place >> 3) * 11400714819323198485u >> 48;
  while (table[at].place && table[at].place != place) at = (at + 1) % MOST;
  return &table[at];
}

static void note(named *kernel, int error) {
  char line[4096];
  const char *path = getenv("LAUNCHED_KERNELS");
  if (!path || (kernel->said & (error ? 2 : 1))) return;
  kernel->said |= error ? 2 : 1;
  int size = snprintf(line, sizeof line, "%d %s\n", error, kernel->name ? kernel->name : refused);
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0 || size >= (int)sizeof line || write(file, line, (size_t)size) != size) abort();
  close(file);
}

static int noted(named *table, const void *place, int error) {
  pthread_mutex_lock(&lock);
  note(place_of(table, place), error);
  pthread_mutex_unlock(&lock);
  return error;
}

void __cudaRegisterFunction(void **unit, const char *host, char *device, const char *name, int limit, void *tid, void *bid,
                            void *block, void *grid, int *size) {
  void (*really)(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *) =
      next("__cudaRegisterFunction");
  pthread_mutex_lock(&lock);
  named *function = place_of(functions, host);
  function->place = host;
  function->name = name;
  pthread_mutex_unlock(&lock);
  really(unit, host, device, name, limit, tid, bid, block, grid, size);
}

int __cudaGetKernel(void **kernel, const void *host) {
  int (*really)(void **, const void *) = next("__cudaGetKernel");
  int error = really(kernel, host);
  pthread_mutex_lock(&lock);
  named *function = place_of(functions, host);
  if (error) {
    if (function->name) refused = function->name;
    note(function, error);
  } else {
    named *handle = place_of(handles, *kernel);
    handle->place = *kernel;
    handle->name = function->name;
  }
  pthread_mutex_unlock(&lock);
  return error;
}

int __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream) {
  int (*really)(void *, dim3, dim3, void **, size_t, void *) = next("__cudaLaunchKernel");
  return noted(handles, kernel, really(kernel, grid, block, arguments, shared, stream));
}

int cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream) {
  int (*really)(const void *, dim3, dim3, void **, size_t, void *) = next("cudaLaunchKernel");
  return noted(functions, host, really(host, grid, block, arguments, shared, stream));
}

int cudaLaunchCooperativeKernel(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream) {
  int (*really)(const void *, dim3, dim3, void **, size_t, void *) = next("cudaLaunchCooperativeKernel");
  return noted(functions, host, really(host, grid, block, arguments, shared, stream));
}

int cudaLaunchKernelExC(const void *settings, const void *host, void **arguments) {
  int (*really)(const void *, const void *, void **) = next("cudaLaunchKernelExC");
  return noted(functions, host, really(settings, host, arguments));
}
