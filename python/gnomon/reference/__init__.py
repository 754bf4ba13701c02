"""The specification: every formula of gnomon in plain Python, standard library only.

Each module has the name of the compiled module it specifies. The loops are written out, because the
order of the float64 operations is part of the answer: since Python 3.12 the built-in ``sum`` of
floats is compensated, and numpy and BLAS add in orders of their own. Tests compare the compiled
engines with these functions by ``==``; the rest of the package does not import them (``gnomon
demo`` alone does, to show the equality). They are slow on purpose and take valid input for granted,
except where an error is part of the definition.
"""
