"""Finds the code for each fault of the manifest: a plain table, no discovery."""

from __future__ import annotations

from zonequake_chaos.faults.kinds.clock_step import ClockStep
from zonequake_chaos.faults.kinds.disk_full import DiskFull
from zonequake_chaos.faults.kinds.load_pause import LoadPause
from zonequake_chaos.faults.kinds.network import NetworkLoss, NetworkPartition, NetworkSlow
from zonequake_chaos.faults.kinds.node_outage import NodeOutage
from zonequake_chaos.faults.kinds.on_the_node import ComponentKill, ComponentPause, ForceDelete
from zonequake_chaos.faults.kinds.operator import OperatorKill, OperatorPause
from zonequake_chaos.faults.kinds.pod_kill import GracefulDelete, PodKill
from zonequake_chaos.faults.kinds.power_loss import PowerLossLife
from zonequake_chaos.faults.kinds.processes import ProcessKill, ProcessPause
from zonequake_chaos.faults.kinds.reset_by_hand import ResetByHand
from zonequake_chaos.faults.kinds.rolling_restart import RollingRestart
from zonequake_chaos.faults.kinds.scale import Scale
from zonequake_chaos.faults.kinds.tampered_calls import FailedFsync, SlowDisk
from zonequake_chaos.faults.life import FaultLife
from zonequake_chaos.faults.reached import Reached
from zonequake_chaos.scenario import faults


def life_of(fault: faults.AnyFault) -> FaultLife:
    """Returns a new life for one injection of `fault`."""
    match fault:
        case faults.PodKillSpec():
            return PodKill()
        case faults.GracefulDeleteSpec():
            return GracefulDelete()
        case faults.ProcessKillSpec():
            return ProcessKill()
        case faults.ProcessPauseSpec():
            return ProcessPause()
        case faults.NodeOutageSpec():
            return NodeOutage(return_gap_s=fault.return_gap_s)
        case faults.NetworkPartitionSpec():
            return NetworkPartition(traffic=fault.cut, direction=fault.direction)
        case faults.NetworkLossSpec():
            return NetworkLoss(
                traffic=fault.traffic, direction=fault.direction, percent=fault.percent
            )
        case faults.NetworkSlowSpec():
            return NetworkSlow(
                traffic=fault.traffic,
                direction=fault.direction,
                delay_ms=fault.delay_ms,
                jitter_ms=fault.jitter_ms,
                bytes_per_second=fault.bytes_per_second,
            )
        case faults.ForceDeleteSpec():
            return ForceDelete()
        case faults.ComponentPauseSpec():
            return ComponentPause(component=fault.component)
        case faults.ComponentKillSpec():
            return ComponentKill(component=fault.component)
        case faults.FailedFsyncSpec():
            return FailedFsync()
        case faults.SlowDiskSpec():
            return SlowDisk(fault)
        case faults.PowerLossSpec():
            return PowerLossLife()
        case faults.DiskFullSpec():
            return DiskFull()
        case faults.ClockStepSpec():
            return ClockStep(step_s=fault.step_s)
        case faults.OperatorPauseSpec():
            return OperatorPause()
        case faults.OperatorKillSpec():
            return OperatorKill()
        case faults.LoadPauseSpec():
            return LoadPause()
        case faults.ResetByHandSpec():
            return ResetByHand(zone=fault.zone, partitions=fault.partitions)
        case faults.ReachedSpec():
            return Reached()
        case faults.RollingRestartSpec():
            return RollingRestart()
        case faults.ScaleSpec():
            return Scale(pool=fault.pool, replicas=fault.replicas)
