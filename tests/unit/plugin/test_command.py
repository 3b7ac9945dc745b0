"""Words, files and what leaves the house."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zonequake_chaos.errors import UsageError
from zonequake_chaos.plugin.look import find_current
from zonequake_chaos.plugin.planning import wish_of_settings, wishes_of_file
from zonequake_chaos.plugin.support_report import redacted


def test_the_namespace_is_that_of_the_current_context(tmp_path: Path) -> None:
    config = tmp_path / "config"
    contexts = [
        {"name": "here", "context": {"namespace": "shop"}},
        {"name": "there", "context": {}},
    ]
    config.write_text(json.dumps({"current-context": "here", "contexts": contexts}))

    def namespace(context: str | None = None, given: str | None = None) -> str:
        return find_current(kubeconfig=config, context=context, namespace=given).namespace

    assert (namespace(), namespace("there"), namespace(given="other")) == (
        "shop",
        "default",
        "other",
    )


def test_without_a_kubeconfig_it_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no kubeconfig .*missing"):
        find_current(kubeconfig=tmp_path / "missing", context=None, namespace=None)


def test_a_file_may_hold_several_zones_and_other_things(tmp_path: Path) -> None:
    path = tmp_path / "zones.yaml"
    path.write_text(
        "kind: ConfigMap\nmetadata: {name: x}\n---\n"
        "kind: DistributionZone\nmetadata: {name: a}\nspec: {replicas: 5}\n---\n"
        "kind: DistributionZone\nmetadata: {name: b}\n"
    )
    assert [(wish.zone, wish.spec) for wish in wishes_of_file(path)] == [
        ("a", {"replicas": 5}),
        ("b", {}),
    ]
    path.write_text("kind: ConfigMap\nmetadata: {name: x}\n")
    with pytest.raises(UsageError, match="holds no DistributionZone"):
        wishes_of_file(path)
    path.write_text("{")
    with pytest.raises(UsageError, match="can't be read"):
        wishes_of_file(path)


def test_settings_are_typed_as_in_a_manifest() -> None:
    wish = wish_of_settings("z", ["replicas=5", "paused=true", "dataNodesFilter='\"SSD\"'"])
    assert wish.spec == {"replicas": 5, "paused": True, "dataNodesFilter": '"SSD"'}
    with pytest.raises(UsageError, match="expected FIELD=VALUE"):
        wish_of_settings("z", ["replicas"])


def test_a_report_hides_what_others_may_have_put_into_a_pod() -> None:
    pod = {
        "metadata": {
            "name": "zq-default-0",
            "annotations": {"vault.example/token": "s3cret", "zonequake.io/kept": "yes"},
            "managedFields": [{}],
        },
        "spec": {
            "imagePullSecrets": [{"name": "registry-secret"}],
            "containers": [
                {
                    "name": "store",
                    "env": [
                        {"name": "ZQ_NODE", "value": "zq-default-0"},
                        {"name": "PASSWORD", "value": "s3cret"},
                    ],
                }
            ],
        },
    }
    text = json.dumps(redacted(pod))
    assert "s3cret" not in text
    assert "registry-secret" not in text
    assert "managedFields" not in text
    assert '"zonequake.io/kept": "yes"' in text
    assert '"value": "zq-default-0"' in text
