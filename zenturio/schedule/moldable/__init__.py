"""Algorithms that choose how many nodes each moldable task gets."""
