"""From a fault in the manifest to the code that does it: a plain table, no discovery."""

from __future__ import annotations

from zonequake_chaos.faults.kinds.clock_step import ClockStep
from zonequake_chaos.faults.kinds.disk_full import DiskFull
from zonequake_chaos.faults.kinds.failed_fsync import FailedFsync
from zonequake_chaos.faults.kinds.links import NetworkLoss, NetworkPartition, NetworkSlow
from zonequake_chaos.faults.kinds.load_pause import LoadPause
from zonequake_chaos.faults.kinds.node_outage import NodeOutage
from zonequake_chaos.faults.kinds.on_the_node import ComponentKill, ComponentPause, ForceDelete
from zonequake_chaos.faults.kinds.operator import OperatorKill, OperatorPause
from zonequake_chaos.faults.kinds.pod_kill import GracefulDelete, PodKill
from zonequake_chaos.faults.kinds.processes import ProcessKill, ProcessPause
from zonequake_chaos.faults.kinds.reset_by_hand import ResetByHand
from zonequake_chaos.faults.kinds.rolling_restart import RollingRestart
from zonequake_chaos.faults.kinds.scale import Scale
from zonequake_chaos.faults.life import FaultLife
from zonequake_chaos.faults.reached import Reached
from zonequake_chaos.scenario import faults as scenario


def life_of(fault: scenario.Fault) -> FaultLife:
    """A new life for one injection of `fault`."""
    match fault:
        case scenario.PodKill():
            return PodKill()
        case scenario.GracefulDelete():
            return GracefulDelete()
        case scenario.ProcessKill():
            return ProcessKill()
        case scenario.ProcessPause():
            return ProcessPause()
        case scenario.NodeOutage():
            return NodeOutage(return_gap_s=fault.return_gap_s)
        case scenario.NetworkPartition():
            return NetworkPartition(traffic=fault.cut, direction=fault.direction)
        case scenario.NetworkLoss():
            return NetworkLoss(
                traffic=fault.traffic, direction=fault.direction, percent=fault.percent
            )
        case scenario.NetworkSlow():
            return NetworkSlow(
                traffic=fault.traffic,
                direction=fault.direction,
                delay_ms=fault.delay_ms,
                jitter_ms=fault.jitter_ms,
                bytes_per_second=fault.bytes_per_second,
            )
        case scenario.ForceDelete():
            return ForceDelete()
        case scenario.ComponentPause():
            return ComponentPause(component=fault.component)
        case scenario.ComponentKill():
            return ComponentKill(component=fault.component)
        case scenario.FailedFsync():
            return FailedFsync()
        case scenario.DiskFull():
            return DiskFull()
        case scenario.ClockStep():
            return ClockStep(step_s=fault.step_s)
        case scenario.OperatorPause():
            return OperatorPause()
        case scenario.OperatorKill():
            return OperatorKill()
        case scenario.LoadPause():
            return LoadPause()
        case scenario.ResetByHand():
            return ResetByHand(zone=fault.zone, partitions=fault.partitions)
        case scenario.Reached():
            return Reached()
        case scenario.RollingRestart():
            return RollingRestart()
        case scenario.Scale():
            return Scale(pool=fault.pool, replicas=fault.replicas)
