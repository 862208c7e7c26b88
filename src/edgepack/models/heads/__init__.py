"""What rerankers and classifiers have behind their encoder: heads of transformers, and those of SetFit."""
