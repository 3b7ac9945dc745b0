"""Connections of `zonequake kv` to data nodes through the Kubernetes API."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from kubernetes import client as kube_client
from kubernetes import config as kube_config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from kubernetes.stream import portforward

from zonequake_ctl.context import ReleasePlace
from zonequake_kube.errors import ClusterError, UsageError
from zonequake_load.client.connection import Connection, tls_words
from zonequake_tls.credentials import Credentials

CLIENT_PORT = 7002

_API_TIMEOUT_S = 5.0


class PortForwards:
    """Connections to data nodes through the Kubernetes API, one for each pod that is dialled.

    `name_of` turns an address into the node's, and so the pod's, name.
    """

    def __init__(
        self,
        configuration: kube_client.Configuration,
        namespace: str,
        pods: dict[str, str],
        credentials: Credentials | None,
    ) -> None:
        self._credentials = credentials
        self._configuration = configuration
        self._namespace = namespace
        self._pods = pods  # address -> pod
        self.name_of: Callable[[str], str] = lambda address: address

    @classmethod
    def to_release(cls, place: ReleasePlace, credentials: Credentials | None) -> PortForwards:
        """To the running data nodes of a release. Raises UsageError, ClusterError."""
        configuration = kube_client.Configuration()
        try:
            kube_config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(place.kubeconfig) if place.kubeconfig else None,
                context=place.context,
                client_configuration=configuration,
                persist_config=False,
            )
        except ConfigException as error:
            raise UsageError(f"no usable kubeconfig: {error}") from error
        with kube_client.ApiClient(configuration) as api:
            try:
                found = kube_client.CoreV1Api(api).list_namespaced_pod(
                    place.namespace,
                    label_selector=(
                        "app.kubernetes.io/component=store,"
                        f"app.kubernetes.io/instance={place.release}"
                    ),
                    field_selector="status.phase=Running",
                    _request_timeout=_API_TIMEOUT_S,
                )
            except ApiException as error:
                raise ClusterError(
                    f"cannot list the pods of {place.namespace}: {error.reason}",
                    status=error.status or 0,
                ) from error
        pods = {
            f"{pod.status.pod_ip}:{CLIENT_PORT}": str(pod.metadata.name)
            for pod in found.items
            if pod.metadata and pod.status and pod.status.pod_ip
        }
        if not pods:
            raise ClusterError(
                f"found no running data node of release {place.release} in namespace "
                f"{place.namespace}; name others with --release and --namespace"
            )
        return cls(configuration, place.namespace, pods, credentials)

    @property
    def addresses(self) -> list[str]:
        return list(self._pods)

    async def dial(self, address: str, connection: Callable[[], Connection]) -> Connection:
        """Open a connection to the pod at `address`. Raises OSError."""
        pod = self._pods.get(address) or self.name_of(address)
        async with asyncio.timeout(_API_TIMEOUT_S):
            end = await asyncio.to_thread(self._forward, pod)
            _, opened = await asyncio.get_running_loop().create_connection(
                connection, sock=end, **tls_words(self._credentials)
            )
        return opened

    def _forward(self, pod: str) -> socket.socket:
        # An ApiClient of its own: opening a stream changes it for a moment.
        core = kube_client.CoreV1Api(kube_client.ApiClient(self._configuration))
        try:
            forward = portforward(
                core.connect_get_namespaced_pod_portforward,
                pod,
                self._namespace,
                ports=str(CLIENT_PORT),
                _request_timeout=_API_TIMEOUT_S,
            )
        except ApiException as error:
            raise ConnectionError(f"cannot forward to pod {pod}: {error.reason}") from error
        # The plain socket: the library wraps it in a class that asyncio refuses.
        end = socket.socket(fileno=forward.socket(CLIENT_PORT).detach())
        end.setblocking(False)
        return end
