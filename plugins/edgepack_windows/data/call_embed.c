/* Runs a bundle's embed.dll as its program is run: JSON lines, each with a text, become JSON lines, each with its embedding.
 *
 *     call-embed.exe LIBRARY          in the bundle's folder; the path has no spaces, or stands in quotes
 *
 * A program as compilers for Windows make them, but without a C library, whose parts would have to be compiled first. What the
 * library refuses goes to stderr, and its code is the exit code. Lines are as Python's json writes them: ASCII, no other key.
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

int _fltused;

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

static unsigned hexadecimal(const char *digits) {
  unsigned value = 0;
  for (int index = 0; index < 4; index++)
    value = value << 4 | (unsigned)(digits[index] <= '9' ? digits[index] - '0' : (digits[index] | 32) - 'a' + 10);
  return value;
}

static char *put_point(char *out, unsigned point) {
  if (point < 0x80) {
    *out++ = (char)point;
    return out;
  }
  int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  *out++ = (char)((0x780 >> more) | (point >> (6 * more)));
  while (more--) *out++ = (char)(0x80 | (point >> (6 * more) & 0x3F));
  return out;
}

static char escaped(char letter) {
  switch (letter) {
  case 'b': return '\b';
  case 'f': return '\f';
  case 'n': return '\n';
  case 'r': return '\r';
  case 't': return '\t';
  }
  return letter;
}

/* The string after the colon, unescaped where it stands; it ends before the line's last quote. */
static char *text_of(char *line, char *end, Size *size) {
  while (line < end && *line != ':') line++;
  while (line < end && *line != '"') line++;
  while (end > line && *end != '"') end--;
  if (line >= end) check(ENDED, "a line without a text");
  char *start = ++line, *out = start;
  while (line < end) {
    if (*line != '\\') {
      *out++ = *line++;
    } else if (line[1] != 'u') {
      *out++ = escaped(line[1]);
      line += 2;
    } else {
      unsigned point = hexadecimal(line + 2);
      line += 6;
      if (point >> 10 == 0x36 && line[0] == '\\' && line[1] == 'u') {
        point = 0x10000 + ((point & 0x3FF) << 10 | (hexadecimal(line + 2) & 0x3FF));
        line += 6;
      }
      out = put_point(out, point);
    }
  }
  *size = (Size)(out - start);
  return start;
}

/* With nine digits, of which the same float is read. */
static char *put_number(char *out, float given) {
  double value = given < 0 ? -given : given;
  int exponent = 0;
  if (given < 0) *out++ = '-';
  for (; value >= 10; value /= 10) exponent++;
  for (; value && value < 1; value *= 10) exponent--;
  exponent -= 8;
  char digits[12];
  int count = 0;
  for (Size whole = (Size)(value * 1e8 + 0.5); whole || !count; whole /= 10) digits[count++] = (char)('0' + whole % 10);
  while (count) *out++ = digits[--count];
  *out++ = 'e';
  if (exponent < 0) *out++ = '-', exponent = -exponent;
  *out++ = (char)('0' + exponent / 10);
  *out++ = (char)('0' + exponent % 10);
  return out;
}

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
  for (Size row = 0; row < count; row++) {
    char *end = at;
    while (*end != '\n') end++;
    texts[row] = text_of(at, end, &lengths[row]);
    at = end + 1;
  }
  float *vectors = room((count * dimension + 1) * sizeof *vectors);
  check(embed(bundle, texts, lengths, count, vectors, message, MESSAGE), message);
  char *line = room(dimension * 20 + 64);
  for (Size row = 0; row < count; row++) {
    char *out = line;
    for (const char *head = "{\"embedding\":["; *head;) *out++ = *head++;
    for (Size column = 0; column < dimension; column++) {
      if (column) *out++ = ',';
      out = put_number(out, vectors[row * dimension + column]);
    }
    for (const char *tail = "]}\n"; *tail;) *out++ = *tail++;
    put(OUTPUT, line, (Size)(out - line));
  }
  ExitProcess(0);
}
