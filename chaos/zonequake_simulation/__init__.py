"""A deterministic simulation of data nodes, their disks, network, operator and clients."""

from zonequake_simulation.plan import Fault, FaultPlan
from zonequake_simulation.report import SeedReport, simulate
from zonequake_simulation.scenario import STEPS, FaultKind, Scenario
from zonequake_simulation.scenarios import SCENARIOS
from zonequake_simulation.simulation import Simulation
from zonequake_simulation.violation import Violation

__all__ = [
    "SCENARIOS",
    "STEPS",
    "Fault",
    "FaultKind",
    "FaultPlan",
    "Scenario",
    "SeedReport",
    "Simulation",
    "Violation",
    "simulate",
]
