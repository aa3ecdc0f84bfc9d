"""A clock that is set: what has a life of its own goes on, what has a date is judged by the clock, nothing is hung."""

from __future__ import annotations

import json
from pathlib import Path

from support.fault_table import Tried
from support.kube import TOKEN, Kube
from support.plugins import Node, run_script

# Every clock of the day is replaced before keyferry is imported; the one that only goes forward is left alone.
SET_CLOCK = """
import json, time
offset = 0
real, real_ns = time.time, time.time_ns
time.time = lambda: real() + offset
time.time_ns = lambda: real_ns() + offset * 1_000_000_000
YEAR = 365 * 86400
"""
LOOKUPS = """
from keyferry import load_providers
providers = load_providers({config!r}, {bin_dir!r})
told = []
for offset in (0, YEAR, -YEAR, 0):
    told.append(providers.lookup("registry.example/team/app").credentials[0].password)
print(json.dumps(told))
"""
CLUSTER = """
from keyferry import PluginPolicy, load_cluster
session = load_cluster(kubeconfig={config!r}, policy=PluginPolicy())
told = []
for offset in (0, YEAR, YEAR, -YEAR, 0):
    session.grant()
    told.append(open({runs!r}).read().count("run"))
print(json.dumps(told))
"""


def test_answers_for_images_do_not_depend_on_the_clock_of_the_day(node: Node, tried: Tried) -> None:
    node.recording()
    node.load()
    code = LOOKUPS.format(config=str(node.config), bin_dir=str(node.bin_dir))
    done = run_script(SET_CLOCK + code)
    assert done.returncode == 0, done.stderr
    assert len(set(json.loads(done.stdout))) == 1
    assert len(node.runs()) == 1
    tried(
        "the clock is set a year forward and back", "a cached answer for an image", "served for its own life"
    )


def test_a_clusters_credential_is_judged_by_its_date(tmp_path: Path, tried: Tried) -> None:
    """As client-go does: forward, the plugin runs for each request that finds it expired; back, nothing is lost."""
    kube = Kube(tmp_path)
    kube.write("https://127.0.0.1:1")
    expires = "2100-01-01T00:00:00Z"
    status = {"token": TOKEN, "expirationTimestamp": expires}
    kube.answer(
        json.dumps(
            {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
        )
    )
    code = CLUSTER.format(config=str(kube.path), runs=str(kube.folder / "runs"))
    done = run_script(SET_CLOCK + code.replace("YEAR", "100 * YEAR"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [1, 2, 3, 3, 3]
    tried(
        "the clock is set a century forward and back",
        "a cluster's credential with a date",
        "renewed while it counts as expired, used again after that",
    )
