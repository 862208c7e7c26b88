// From here on, a product and a sum are rounded one after the other, also where the processor has an instruction for both.
// Included last.
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif
