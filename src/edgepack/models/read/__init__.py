"""Model folders read and checked: configuration, weights, tokenizer, pooling."""
