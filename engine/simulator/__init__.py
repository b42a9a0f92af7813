"""The engine under virtual time: the real core and the real links, on a simulated network, from a seed.

Nothing here reads a clock, opens a socket or draws from a global random: the same schedule gives the same
run, byte for byte.
"""
