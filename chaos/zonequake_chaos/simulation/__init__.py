"""A deterministic simulation of data nodes, their disks, network, operator and clients."""

from zonequake_chaos.simulation.plan import Fault, FaultPlan
from zonequake_chaos.simulation.report import SeedReport, simulate
from zonequake_chaos.simulation.scenario import STEPS, FaultKind, Scenario
from zonequake_chaos.simulation.scenarios import SCENARIOS
from zonequake_chaos.simulation.simulation import Simulation
from zonequake_chaos.simulation.violation import Violation

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
