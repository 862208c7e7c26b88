/* Makes vectors by a bundle's embed.dll, for the proof, of such lines as call_libembed.c has.
 *
 *     call-embed.exe LIBRARY          in the bundle's folder; the path has no spaces, or stands in quotes
 *
 * A program as compilers for Windows make them, but without a C library, whose parts would have to be compiled first. What the
 * library refuses goes to stderr, and its code is the exit code.
 */
#define FROM_WINDOWS __declspec(dllimport)
typedef unsigned short Wide;
typedef unsigned long long Size;

FROM_WINDOWS void ExitProcess(unsigned code) __attribute__((noreturn));
FROM_WINDOWS Wide *GetCommandLineW(void);
FROM_WINDOWS void *GetProcAddress(void *module, const char *name);
FROM_WINDOWS void *GetProcessHeap(void);
FROM_WINDOWS void *GetStdHandle(unsigned which);
FROM_WINDOWS void *HeapAlloc(void *heap, unsigned flags, Size size);
FROM_WINDOWS void *HeapReAlloc(void *heap, unsigned flags, void *block, Size size);
FROM_WINDOWS void *LoadLibraryW(const Wide *path);
FROM_WINDOWS int ReadFile(void *file, void *data, unsigned size, unsigned *done, void *at);
FROM_WINDOWS int WriteFile(void *file, const void *data, unsigned size, unsigned *done, void *at);

enum { ENDED = 5, MESSAGE = 1024, PART = 1 << 16, INPUT = -10, OUTPUT = -11, ERRORS = -12 };

typedef int Open(const char *, const void *, void **, char *, Size);
typedef Size Dimension(const void *);
typedef int Texts(const void *, const char *const *, const Size *, Size, float *, char *, Size);

static Size length(const char *text) {
  Size size = 0;
  while (text[size]) size++;
  return size;
}

static void put(int where, const char *text, Size size) {
  for (unsigned done; size; text += done, size -= done)
    if (!WriteFile(GetStdHandle((unsigned)where), text, size < PART ? (unsigned)size : PART, &done, 0) || !done) ExitProcess(ENDED);
}

static void check(int code, const char *message) {
  if (!code) return;
  put(ERRORS, message, length(message));
  put(ERRORS, "\n", 1);
  ExitProcess((unsigned)code);
}

static void *room(Size size) {
  void *made = HeapAlloc(GetProcessHeap(), 0, size);
  check(made ? 0 : ENDED, "no memory");
  return made;
}

/* All of the input, with a NUL after it. */
static char *input(Size *size) {
  Size most = PART;
  char *data = room(most);
  for (unsigned done; ReadFile(GetStdHandle((unsigned)INPUT), data + *size, (unsigned)(most - *size - 1), &done, 0) && done;) {
    *size += done;
    if (most - *size < PART / 2 && !(data = HeapReAlloc(GetProcessHeap(), 0, data, most *= 2))) check(ENDED, "no memory");
  }
  data[*size] = 0;
  return data;
}

static int digit(char letter) { return letter <= '9' ? letter - '0' : letter - 'a' + 10; }

/* The command line's second word, with Windows' own slashes. */
static Wide *second(Wide *line) {
  for (int quoted = 0; *line && (quoted || *line != ' '); line++) quoted ^= *line == '"';
  while (*line == ' ') line++;
  Wide ends = *line == '"' ? '"' : ' ', *word = ends == '"' ? line + 1 : line;
  for (line = word; *line && *line != ends; line++)
    if (*line == '/') *line = '\\';
  *line = 0;
  return word;
}

void start(void) {
  static char message[MESSAGE];
  void *bundle, *library = LoadLibraryW(second(GetCommandLineW()));
  check(library ? 0 : ENDED, "the library cannot be loaded");
  Open *open = (Open *)GetProcAddress(library, "embed_open");
  Dimension *dimension_of = (Dimension *)GetProcAddress(library, "embed_dimension");
  Texts *embed = (Texts *)GetProcAddress(library, "embed_texts");
  check(open && dimension_of && embed ? 0 : ENDED, "the library lacks a function");
  check(open(".", 0, &bundle, message, MESSAGE), message);
  Size size = 0, count = 0, dimension = dimension_of(bundle);
  char *data = input(&size);
  for (Size index = 0; index < size; index++) count += data[index] == '\n';
  const char **texts = room((count + 1) * sizeof *texts);
  Size *lengths = room((count + 1) * sizeof *lengths);
  char *at = data;
  for (Size row = 0; row < count; row++, at++) {
    char *out = at;
    texts[row] = at;
    for (; *at != '\n'; at += 2) *out++ = (char)(digit(at[0]) << 4 | digit(at[1]));
    lengths[row] = (Size)(out - texts[row]);
  }
  Size width = dimension * sizeof(float);
  unsigned char *vectors = room(count * width + 1);
  check(embed(bundle, texts, lengths, count, (float *)vectors, message, MESSAGE), message);
  char *line = room(2 * width + 3);
  for (; count; count--) {
    char *out = line;
    *out++ = '"';
    for (Size left = width; left; left--, vectors++) {
      *out++ = "0123456789abcdef"[*vectors >> 4];
      *out++ = "0123456789abcdef"[*vectors & 15];
    }
    *out++ = '"', *out++ = '\n';
    put(OUTPUT, line, (Size)(out - line));
  }
  ExitProcess(0);
}
