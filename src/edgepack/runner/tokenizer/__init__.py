"""A model's tokenizer, compiled: tables that the programs in other languages read in place of tokenizer.json."""
