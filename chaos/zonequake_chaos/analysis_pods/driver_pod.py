"""The pod of an analysis's driver: the release's template with a name, a run and a Secret."""

from __future__ import annotations

from zonequake_analysis.pods.template import SECRET_VARIABLE, with_secret
from zonequake_kube.objects import Json


def driver_pod(template: Json, *, name: str, uri: str, secret: str) -> Json:
    """Returns the pod that analyses the run at `uri`.

    `template` is `driver.yaml` of the release's ConfigMap; `secret` is the name of the Secret with
    the store's credentials, empty for the one that the release names, if it does.
    """
    pod = with_secret(template, secret)
    first, *others = pod["spec"]["containers"]
    container = {
        **first,
        "args": ["analyze", uri],
        "env": [*first.get("env", []), {"name": SECRET_VARIABLE, "value": secret}],
    }
    return {
        **pod,
        "metadata": {**pod["metadata"], "name": name},
        "spec": {**pod["spec"], "containers": [container, *others]},
    }
