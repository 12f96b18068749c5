"""Which queue takes the dead letters of a namespace where none is named."""

from __future__ import annotations

from collections.abc import Mapping

from jbm_kafka.admin import Admin
from jbm_kafka.core.settings.address_settings import default_addresses


def dead_letter_queue(bootstrap: str, namespace: str, kafka: Mapping[str, object] | None) -> str:
    """Its name; the cluster is asked only where there is a namespace.

    Raises:
        JMSError: no answer.
    """
    if not namespace:
        return default_addresses().dead_letters
    with Admin(bootstrap, namespace=namespace, kafka=kafka) as admin:
        return admin.dead_letter_queue().name
