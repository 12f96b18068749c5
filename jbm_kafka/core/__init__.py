"""The rules that must hold, in plain Python: no I/O, no clock, no thread, no log, no chance.

Time, ids and chance come in as arguments; values go in and values come out.
"""
