"""Cutting rows into blocks: how many, and which row goes where."""
