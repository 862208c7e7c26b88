"""Model folders read and checked: what a model is for, configuration, weights, tokenizer, pooling."""
