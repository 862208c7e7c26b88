/* A program for Windows that has no C library, and calls embed.dll as such programs do: a word says which test it makes.
 *
 *     calls_library.exe LIBRARY TEST BUNDLE
 *
 * Each answer is "TEST: right", or what was wrong first. */
#include <windows.h>
#include <immintrin.h>

typedef int (*Open)(const char *, const void *, void **, char *, size_t);
typedef size_t (*Dimension)(const void *);
typedef int (*Texts)(const void *, const char *const *, const size_t *, size_t, float *, char *, size_t);
typedef const char *(*Label)(const void *, size_t);
typedef int (*ScoresOf)(const void *, const char *, const char *const *, const size_t *, size_t, float *, char *, size_t);
typedef int (*Outputs)(const void *, const char *const *, const size_t *, size_t, float *, void *, void *, char *, size_t);
typedef void (*Close)(void *);

enum { MOST = 4096, THREADS = 8, ROUNDS = 25, ENDING = 300, LOADS = 20 };

static WCHAR library[MAX_PATH];
static char bundle[3 * MAX_PATH];
static HMODULE module;
static Open embed_open;
static Dimension embed_dimension;
static Texts embed_texts;
static Label embed_label;
static ScoresOf embed_scores;
static Outputs embed_outputs;
static Close embed_free_rows, embed_close;
static const char *const texts[] = {"A man is eating food.", "A dog.", "\xff is no character", "Gr\xc3\xbc\xc3\x9f" "e"};
enum { COUNT = 4 };

static size_t length(const char *text) {
  size_t size = 0;
  while (text[size]) size++;
  return size;
}

static void say(const char *text) {
  DWORD done;
  WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), text, (DWORD)length(text), &done, NULL);
}

static void require(int right, const char *what) {
  if (right) return;
  say("wrong: ");
  say(what);
  say("\n");
  TerminateProcess(GetCurrentProcess(), 1);
}

static void *function(const char *name) {
  void *found = (void *)GetProcAddress(module, name);
  require(found != NULL, name);
  return found;
}

static void load(void) {
  module = LoadLibraryW(library);
  require(module != NULL, "the library is not loaded");
  embed_open = (Open)function("embed_open");
  embed_dimension = (Dimension)function("embed_dimension");
  embed_texts = (Texts)function("embed_texts");
  embed_label = (Label)function("embed_label");
  embed_scores = (ScoresOf)function("embed_scores");
  embed_outputs = (Outputs)function("embed_outputs");
  embed_free_rows = (Close)function("embed_free_rows");
  embed_close = (Close)function("embed_close");
}

static void *opened(void) {
  void *made = NULL;
  char error[256] = "";
  if (embed_open(bundle, NULL, &made, error, sizeof error)) require(0, error);
  require(made != NULL && embed_dimension(made) <= MOST, "no bundle");
  return made;
}

static int same(const void *one, const void *other, size_t size) {
  const char *a = one, *b = other;
  while (size && *a == *b) a++, b++, size--;
  return !size;
}

static void embed(const void *made, float *vectors) {
  char error[256] = "";
  if (embed_texts(made, texts, NULL, COUNT, vectors, error, sizeof error)) require(0, error);
}

static float *room(void) { return VirtualAlloc(NULL, COUNT * MOST * sizeof(float), MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }
static void leave(float *vectors) { VirtualFree(vectors, 0, MEM_RELEASE); }

static void errors(void) {
  char error[256] = "", cut[8] = "", before = 'x';
  void *made = &before;
  load();
  require(embed_open("Z:/no/such/bundle", NULL, &made, error, sizeof error) == 4, "what is missing is not 4");
  require(made == NULL && length(error) > 8, "nothing is said of it");
  require(embed_open("Z:/no/such/bundle", NULL, &made, cut, sizeof cut) == 4 && length(cut) == 7, "it is not cut");
  require(same(cut, error, 7), "it is cut otherwise");
  require(embed_open("Z:/no/such/bundle", NULL, &made, NULL, 0) == 4, "nobody wants to know it");
  void *whole = opened();
  error[0] = 0;
  require(embed_scores(whole, "q", texts, NULL, COUNT, NULL, error, sizeof error) == 2 && error[0], "scores are not refused");
  error[0] = 0;
  require(embed_outputs(whole, texts, NULL, COUNT, NULL, &before, NULL, error, sizeof error) == 2 && error[0], "rows are not refused");
  require(embed_label(whole, 0) == NULL, "it has a label");
  embed_free_rows(NULL);
  embed_close(NULL);
  embed_close(whole);
}

/* The vectors' bytes, to be compared outside. */
static void vectors(void) {
  load();
  void *made = opened();
  float *found = room();
  size_t lengths[COUNT];
  char error[256] = "";
  for (int index = 0; index < COUNT; index++) lengths[index] = length(texts[index]);
  if (embed_texts(made, texts, lengths, COUNT, found, error, sizeof error)) require(0, error);
  DWORD done, size = (DWORD)(COUNT * embed_dimension(made) * sizeof(float));
  WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), found, size, &done, NULL);
  embed_close(made);
}

struct Kept { unsigned long long whole[8]; __m128 vectors[10]; };

/* Fills what a function of Windows keeps, calls embed_texts with `given`, and says what is there afterwards. */
__attribute__((naked)) static void call_with(struct Kept *kept, void **given, Texts called) {
  __asm__(
      "pushq %rbx\n pushq %rbp\n pushq %rdi\n pushq %rsi\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
      "subq $0xf8, %rsp\n"
      "movups %xmm6, 0x40(%rsp)\n movups %xmm7, 0x50(%rsp)\n movups %xmm8, 0x60(%rsp)\n movups %xmm9, 0x70(%rsp)\n"
      "movups %xmm10, 0x80(%rsp)\n movups %xmm11, 0x90(%rsp)\n movups %xmm12, 0xa0(%rsp)\n movups %xmm13, 0xb0(%rsp)\n"
      "movups %xmm14, 0xc0(%rsp)\n movups %xmm15, 0xd0(%rsp)\n"
      "movq %rcx, 0xe8(%rsp)\n"
      "movq %r8, %rax\n"
      "movq 0x20(%rdx), %r10\n movq %r10, 0x20(%rsp)\n movq 0x28(%rdx), %r10\n movq %r10, 0x28(%rsp)\n"
      "movq 0x30(%rdx), %r10\n movq %r10, 0x30(%rsp)\n"
      "movq 0(%rcx), %rbx\n movq 8(%rcx), %rbp\n movq 16(%rcx), %rdi\n movq 24(%rcx), %rsi\n"
      "movq 32(%rcx), %r12\n movq 40(%rcx), %r13\n movq 48(%rcx), %r14\n movq 56(%rcx), %r15\n"
      "movups 64(%rcx), %xmm6\n movups 80(%rcx), %xmm7\n movups 96(%rcx), %xmm8\n movups 112(%rcx), %xmm9\n"
      "movups 128(%rcx), %xmm10\n movups 144(%rcx), %xmm11\n movups 160(%rcx), %xmm12\n movups 176(%rcx), %xmm13\n"
      "movups 192(%rcx), %xmm14\n movups 208(%rcx), %xmm15\n"
      "movq 8(%rdx), %r10\n movq 16(%rdx), %r8\n movq 24(%rdx), %r9\n movq 0(%rdx), %rcx\n movq %r10, %rdx\n"
      "call *%rax\n"
      "movq 0xe8(%rsp), %rcx\n"
      "movq %rbx, 0(%rcx)\n movq %rbp, 8(%rcx)\n movq %rdi, 16(%rcx)\n movq %rsi, 24(%rcx)\n"
      "movq %r12, 32(%rcx)\n movq %r13, 40(%rcx)\n movq %r14, 48(%rcx)\n movq %r15, 56(%rcx)\n"
      "movups %xmm6, 64(%rcx)\n movups %xmm7, 80(%rcx)\n movups %xmm8, 96(%rcx)\n movups %xmm9, 112(%rcx)\n"
      "movups %xmm10, 128(%rcx)\n movups %xmm11, 144(%rcx)\n movups %xmm12, 160(%rcx)\n movups %xmm13, 176(%rcx)\n"
      "movups %xmm14, 192(%rcx)\n movups %xmm15, 208(%rcx)\n"
      "movups 0x40(%rsp), %xmm6\n movups 0x50(%rsp), %xmm7\n movups 0x60(%rsp), %xmm8\n movups 0x70(%rsp), %xmm9\n"
      "movups 0x80(%rsp), %xmm10\n movups 0x90(%rsp), %xmm11\n movups 0xa0(%rsp), %xmm12\n movups 0xb0(%rsp), %xmm13\n"
      "movups 0xc0(%rsp), %xmm14\n movups 0xd0(%rsp), %xmm15\n"
      "addq $0xf8, %rsp\n"
      "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rsi\n popq %rdi\n popq %rbp\n popq %rbx\n"
      "ret\n");
}

static void registers(void) {
  load();
  void *made = opened();
  float *found = room();
  struct Kept filled, kept;
  for (size_t index = 0; index < sizeof filled; index++) ((volatile char *)&filled)[index] = ((volatile char *)&kept)[index] = (char)(index * 7 + 1);
  void *given[] = {made, (void *)texts, NULL, (void *)COUNT, found, NULL, NULL};
  call_with(&kept, given, embed_texts);
  require(found[0] != 0, "no vectors");
  require(same(&filled, &kept, sizeof kept), "a register of the caller's is another");
  embed_close(made);
}

/* What is small counts as nothing, numbers are rounded up, and long ones have 53 bits. */
static void mode(void) {
  enum { OTHER = 0xDFC0, CONTROL = 0xFFC0 };
  unsigned short old_unit = 0x27F, after = 0;
  load();
  void *made = opened();
  float *plain = room(), *found = room();
  embed(made, plain);
  unsigned before = _mm_getcsr();
  _mm_setcsr(OTHER);
  __asm__ volatile("fldcw %0" : : "m"(old_unit));
  embed(made, found);
  unsigned then = _mm_getcsr();
  __asm__ volatile("fnstcw %0" : "=m"(after));
  _mm_setcsr(before);
  require((then & CONTROL) == (OTHER & CONTROL), "MXCSR is another");
  require(after == old_unit, "the control word is another");
  require(same(plain, found, COUNT * embed_dimension(made) * sizeof(float)), "the vectors are others");
  embed_close(made);
}

static HANDLE loaded;
static void *shared;
static float *expected;

static DWORD WINAPI many(void *unused) {
  float *found = room();
  WaitForSingleObject(loaded, INFINITE);
  for (int round = 0; round < ROUNDS; round++) {
    embed(shared, found);
    require(same(found, expected, COUNT * embed_dimension(shared) * sizeof(float)), "a thread has other vectors");
  }
  leave(found);
  return 0;
}

/* Of threads that were there before the library was. */
static void threads(void) {
  HANDLE all[THREADS];
  loaded = CreateEventW(NULL, TRUE, FALSE, NULL);
  for (int index = 0; index < THREADS; index++) all[index] = CreateThread(NULL, 0, many, NULL, 0, NULL);
  load();
  shared = opened();
  expected = room();
  embed(shared, expected);
  SetEvent(loaded);
  require(WaitForMultipleObjects(THREADS, all, TRUE, INFINITE) != WAIT_FAILED, "no waiting");
  embed_close(shared);
  require(FreeLibrary(module), "it is not freed");
}

/* Bytes that this process has made for itself; the stack of a thread that ended a moment ago may be among them. */
static size_t memory_now(void) {
  MEMORY_BASIC_INFORMATION info;
  size_t all = 0;
  for (char *at = NULL; VirtualQuery(at, &info, sizeof info); at = (char *)info.BaseAddress + info.RegionSize)
    if (info.State == MEM_COMMIT && info.Type == MEM_PRIVATE) all += info.RegionSize;
  return all;
}

static size_t memory(void) {
  size_t least = memory_now();
  for (int wait = 0; wait < 30; wait++) {
    Sleep(10);
    size_t now = memory_now();
    if (now < least) least = now;
  }
  return least;
}

static DWORD WINAPI once(void *unused) {
  static float found[COUNT * MOST];
  embed(shared, found);
  return 0;
}

static void short_threads(int count) {
  for (int index = 0; index < count; index++) {
    HANDLE thread = CreateThread(NULL, 0, once, NULL, 0, NULL);
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
  }
}

static void ending(void) {
  load();
  shared = opened();
  short_threads(ENDING);
  size_t before = memory();
  short_threads(ENDING);
  require(memory() < before + (64 << 10), "threads that end leave memory");
  embed_close(shared);
}

static void load_once(void) {
  load();
  void *made = opened();
  static float found[COUNT * MOST];
  embed(made, found);
  embed_close(made);
  require(FreeLibrary(module), "it is not freed");
  /* Its own threads have it until they are gone. */
  for (int wait = 0; GetModuleHandleW(library) && wait < 500; wait++) Sleep(10);
  require(!GetModuleHandleW(library), "it stays loaded");
}

static DWORD free_slot(void) {
  DWORD slot = TlsAlloc();
  TlsFree(slot);
  return slot;
}

static void loads(void) {
  for (int index = 0; index < 5; index++) load_once();
  size_t before = memory();
  DWORD slot = free_slot(), handles = 0, then = 0;
  GetProcessHandleCount(GetCurrentProcess(), &handles);
  for (int index = 0; index < LOADS; index++) load_once();
  GetProcessHandleCount(GetCurrentProcess(), &then);
  require(memory() < before + (256 << 10), "each time more memory is left");
  require(free_slot() == slot, "a slot for threads is left");
  require(then <= handles + 2, "handles are left");
}

/* Without embed_close: no thread of the library's may run where it is not any more. */
static void unclosed(void) {
  load();
  void *made = opened();
  float *found = room();
  embed(made, found);
  FreeLibrary(module);
  Sleep(200);
}

static const struct { const char *name; void (*test)(void); } tests[] = {
    {"errors", errors}, {"vectors", vectors}, {"registers", registers}, {"mode", mode}, {"threads", threads},
    {"ending", ending}, {"loads", loads}, {"unclosed", unclosed},
};

/* The words of the command line; none of them has spaces or quotes. */
static const WCHAR *word(const WCHAR *line, int number) {
  while (number--) {
    while (*line && *line != ' ') line++;
    while (*line == ' ') line++;
  }
  return line;
}

void start(void) {
  const WCHAR *line = GetCommandLineW(), *from = word(line, 1), *named = word(line, 2), *last = word(line, 3);
  for (int index = 0; from[index] && from[index] != ' '; index++) library[index] = from[index] == '/' ? '\\' : from[index];
  int size = 0;
  while (last[size] && last[size] != ' ') size++;
  WideCharToMultiByte(CP_UTF8, 0, last, size, bundle, sizeof bundle - 1, NULL, NULL);
  for (size_t index = 0; index < sizeof tests / sizeof *tests; index++) {
    size_t letter = 0;
    while (tests[index].name[letter] && tests[index].name[letter] == named[letter]) letter++;
    if (tests[index].name[letter] || (named[letter] && named[letter] != ' ')) continue;
    tests[index].test();
    if (tests[index].test != vectors) say("right\n");
    ExitProcess(0);
  }
  require(0, "no such test");
}
