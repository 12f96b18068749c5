"""The embedded provider: a sidecar in this process for a Kafka elsewhere, shared by connections to one installation."""

from __future__ import annotations

from pathlib import Path

from jbm_kafka.codec.record_size import TRUSTED_COMPRESSION
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.kafka.settings import check_client_settings
from jbm_kafka.ports import Clock, KafkaClientError
from jbm_kafka.ports.client_errors import as_jms_error
from jbm_kafka.ports.clock import SystemClock
from jbm_kafka.ports.installation import Installation
from jbm_kafka.providers.shared_sidecars import RunningSidecar, SharedSidecars
from jbm_kafka.providers.sidecar_provider import SidecarProvider
from jbm_kafka.sidecar.runtime import Stores
from jbm_kafka.sidecar.sidecar import Sidecar
from jbm_kafka.store.folder import StateFolder


def check(installation: Installation) -> None:
    """Raises InvalidSettingError for what can be seen to be wrong without a connection."""
    check_client_settings(installation.client_settings, installation.config.session_timeout_ms)


def connect(installation: Installation) -> SidecarProvider:
    """A connection's provider; the first one of an installation starts its sidecar.

    Raises:
        ConnectionFailedError: nobody answers at the cluster's address.
        JMSError: the state folder cannot be used.
        InvalidSettingError: a connection that this one would share the sidecar of was made with other `kafka`.
    """
    running = sidecars.acquire(installation)
    kafka = installation.client_settings
    compression = kafka.get("compression.type", kafka.get("compression.codec", "lz4"))
    return SidecarProvider(
        installation,
        running,
        compresses=compression in TRUSTED_COMPRESSION,
        let_go=lambda patience: sidecars.release(running, patience),
    )


def _begin(installation: Installation) -> RunningSidecar:
    clock, config = SystemClock(), installation.config
    kafka = ConfluentKafka(installation.bootstrap, installation.client_settings, namespace=config.namespace)
    cluster_id = _cluster_id(kafka, installation.bootstrap)
    stores = _open_stores(installation.state_dir, cluster_id=cluster_id, namespace=config.namespace, clock=clock)
    try:
        sidecar = Sidecar(kafka=kafka, clock=clock, config=config, stores=stores)
    except BaseException:
        stores.close()
        raise
    return RunningSidecar(installation, kafka, clock, sidecar)


def _cluster_id(kafka: ConfluentKafka, bootstrap: str) -> str:
    try:
        admin = kafka.admin()
        try:
            return admin.cluster_id()
        finally:
            admin.close()
    except KafkaClientError as error:
        raise as_jms_error(error, "cannot connect", bootstrap=bootstrap) from None


def _open_stores(state_dir: str | None, *, cluster_id: str, namespace: str, clock: Clock) -> Stores:
    """Return what a sidecar keeps on this machine; without a folder's path in a temporary one."""
    path = None if state_dir is None else Path(state_dir)
    folder = StateFolder.open(path, cluster_id=cluster_id, namespace=namespace)
    return Stores(
        folder.journal(clock=clock),
        folder.held_store(),
        folder.transactional_id(0),
        folder.close,
        has_past=not folder.is_temporary,
    )


sidecars = SharedSidecars(_begin)
"""The sidecars of this process."""
