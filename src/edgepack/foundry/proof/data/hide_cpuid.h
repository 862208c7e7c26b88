/* Answers in the place of cpuid, as an x86-64 processor that has less would.
 *
 * What is to be deceived is a copy whose cpuid instructions are ud2 (as long, and invalid). PROVE_HIDDEN says which bits
 * such a processor has not: leaf 1 ecx, leaf 7 ebx, ecx, edx, leaf 7.1 eax, edx, as hexadecimal numbers.
 */
#ifdef __x86_64__
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static unsigned hidden[6];

static void answer_cpuid(int signal_number, siginfo_t *info, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  const unsigned char *code = (const unsigned char *)registers[REG_RIP];
  unsigned leaf = (unsigned)registers[REG_RAX], part = (unsigned)registers[REG_RCX], a, b, c, d;
  if (code[0] != 0x0f || code[1] != 0x0b) {
    signal(signal_number, SIG_DFL); /* an instruction that this processor really has not */
    return;
  }
  (void)info;
  __cpuid_count(leaf, part, a, b, c, d);
  if (leaf == 1) c &= ~hidden[0];
  if (leaf == 7 && part == 0) b &= ~hidden[1], c &= ~hidden[2], d &= ~hidden[3];
  if (leaf == 7 && part == 1) a &= ~hidden[4], d &= ~hidden[5];
  registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

static void hide_cpuid(void) {
  struct sigaction action;
  char *text = getenv("PROVE_HIDDEN");
  if (!text) return;
  for (int i = 0; i < 6; ++i) hidden[i] = (unsigned)strtoul(text, &text, 16);
  memset(&action, 0, sizeof action);
  action.sa_sigaction = answer_cpuid;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, NULL);
}
#else
static void hide_cpuid(void) {}
#endif
