"""FSM prompting: a table of states, walked one small question at a time.

Wang et al., "FSM: A Finite State Machine Based Zero-Shot Prompting Paradigm
for Multi-Hop Question Answering", 2024.
"""

from pearl.strategies.fsm.solvers import FsmLimits
from pearl.strategies.fsm.table import FSM1, FSM2, MACHINES, Machine
from pearl.strategies.fsm.walking import Fsm, fsm1, fsm2

__all__ = ["FSM1", "FSM2", "MACHINES", "Fsm", "FsmLimits", "Machine", "fsm1", "fsm2"]
