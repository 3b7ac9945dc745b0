"""The rules that a simulated group must keep after every step, one module per area.

Everything is checked from outside: what is stored, sent, applied and answered by a replica.
Sources: Raft paper figure 3, Ongaro's thesis §3.6 and §4.3, design §3 (holes) and §4.
"""
