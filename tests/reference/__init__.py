"""Slow decoders that share as little as possible with the product: what it decodes is held against them."""
