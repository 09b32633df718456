"""Services on an allocation: a program that answers HTTP on the first node, and workers of it on the others."""
