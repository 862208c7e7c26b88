"""The program ``embed`` as it is frozen: imports nothing of edgepack outside this folder, and no third party but tokenizers and, to serve, h11."""
