"""Files: the store, archives, ELF, folders that appear whole or not at all."""
