"""Carry out a plan: find the nodes, start the steps there, listen to them, end them."""
