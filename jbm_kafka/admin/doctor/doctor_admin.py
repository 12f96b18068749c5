"""The doctor: looks, and tells what is not as it should be."""

from __future__ import annotations

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.doctor.ailments import findings_of
from jbm_kafka.admin.doctor.doctor_look import ROLES, DoctorLook
from jbm_kafka.admin.doctor.finding import Checkup
from jbm_kafka.core.wrong_values import wrong_value
from jbm_kafka.jms.base.arguments import checked_seconds

DOCTOR_TIMEOUT_S = 5.0


class DoctorAdmin:
    """Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def doctor(self, *, role: str, timeout_s: float) -> Checkup:
        """Return what is not as it should be."""
        if role not in ROLES:
            raise wrong_value("role", role, f"it is {', '.join(map(repr, ROLES))}")
        timeout_s = checked_seconds("timeout_s", timeout_s)
        with self._core.asking("look for what is not as it should be"):
            looked = DoctorLook(self._core, role=role, timeout_s=timeout_s).look()
        members = tuple(sorted(each.name for each in looked.processes))
        return Checkup(findings_of(looked), looked.brokers, len(looked.topics), members, looked.parked)
