// What the plugin's memory.c does, which this program is linked with in the place of musl's. A line says what is done; what is
// there after it is written.
//   memmove|memcpy BYTES FROM TO SIZE    a buffer of so many bytes, each 7 times its place modulo 251, between whose places it moves
//   memset BYTES TO VALUE SIZE           a buffer of ones
//   compare SIZE AT                      what memcmp and bcmp say of texts that differ from there on: three characters <, = or >, and one
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 16 };
static unsigned char buffer[LARGEST], one[LARGEST], other[LARGEST];

static char sign(int value) { return value < 0 ? '<' : value ? '>' : '='; }

static void compare(size_t size, size_t at) {
    memset(one, 0x7f, size);
    memset(other, 0, size);
    memset(other, 0x7f, at);
    other[at] = 0x80;
    putchar(sign(memcmp(one, other, size)));
    putchar(sign(memcmp(other, one, size)));
    putchar(sign(memcmp(one, other, at)));
    putchar(bcmp(one, other, size) ? '>' : '=');
}

int main(void) {
    char name[16];
    unsigned bytes, first, second, size;
    while (scanf("%15s %u %u", name, &bytes, &first) == 3) {
        if (!strcmp(name, "compare")) {
            compare(bytes, first);
            continue;
        }
        if (scanf("%u %u", &second, &size) != 2) return 1;
        for (unsigned at = 0; at < bytes; ++at) buffer[at] = name[3] == 's' ? 1 : (unsigned char)(at * 7 % 251);
        void *target = buffer + (name[3] == 's' ? first : second), *said;
        if (!strcmp(name, "memset")) said = memset(target, (int)second, size);
        else if (!strcmp(name, "memcpy")) said = memcpy(target, buffer + first, size);
        else said = memmove(target, buffer + first, size);
        if (said != target) return 2;
        fwrite(buffer, 1, bytes, stdout);
    }
    return 0;
}
