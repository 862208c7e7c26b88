"""The native runner: one program with the runtime inside, and a tokenizer of its own, compiled from tokenizer.json."""
