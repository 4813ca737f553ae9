"""The files under configs/cluster are whole, agree with each other, and set settings that exist."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from league.config.loading import load

CLUSTER = Path(__file__).parents[3] / "configs" / "cluster"
FILES = sorted(CLUSTER.iterdir())
PAGE = (CLUSTER.parents[1] / "league" / "CLUSTER.md").read_text()


def kuberay():
    return list(yaml.safe_load_all((CLUSTER / "kuberay.yaml").read_text()))


def test_the_slurm_script_is_one_that_bash_can_read():
    assert subprocess.run(["bash", "-n", CLUSTER / "slurm.sh"], capture_output=True).stderr == b""


def test_the_volumes_and_images_of_kuberay_are_those_that_are_made():
    claim, job = kuberay()
    spec = job["spec"]["rayClusterSpec"]
    head = spec["headGroupSpec"]["template"]["spec"]
    assert head["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    mounted = {mount["name"] for mount in head["containers"][0]["volumeMounts"]}
    assert mounted == {volume["name"] for volume in head["volumes"]}
    images = {head["containers"][0]["image"]}
    images |= {group["template"]["spec"]["containers"][0]["image"] for group in spec["workerGroupSpecs"]}
    assert images == {"league:latest"}
    assert f"rayproject/ray:{spec['rayVersion']}-" in (CLUSTER / "Dockerfile").read_text()


@pytest.mark.parametrize("file", ["slurm.sh", "kuberay.yaml"])
def test_what_a_manifest_sets_is_a_setting(file):
    values = {"resources.address": "head:6379", "resources.wait_seconds": 120, "runners": 24}
    names = re.findall(r"--set ([\w.]+)=", (CLUSTER / file).read_text())
    assert set(names) == set(values)
    resources = {"address": values["resources.address"], "wait_seconds": values["resources.wait_seconds"]}
    load({"env": {"id": "connect_four"}, "runners": values["runners"], "resources": resources})


def test_the_image_has_versions_that_the_project_allows_and_is_not_run_by_root():
    lines = (CLUSTER / "Dockerfile").read_text()
    project = tomllib.loads((CLUSTER.parents[1] / "pyproject.toml").read_text())["project"]
    base = re.search(r"^FROM rayproject/ray:([\d.]+)-py3(\d+)$", lines, re.M)
    assert base is not None
    (ray,) = [Requirement(one) for one in project["dependencies"] if Requirement(one).name == "ray"]
    assert base[1] in ray.specifier
    assert f"3.{base[2]}" in SpecifierSet(project["requires-python"])
    assert set(re.findall(r"ray\[\w+\]==([\d.]+)", lines)) == {base[1]}
    (extras,) = re.findall(r"/checkpoint-league\[([\w,]+)\]", lines)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert re.findall(r"^USER (.*)$", lines, re.M) == ["ray"]
    assert lines.index("USER ray") < lines.index("RUN pip")


def test_an_image_holds_neither_runs_nor_history():
    ignored = (CLUSTER.parents[1] / ".dockerignore").read_text().splitlines()
    assert {"runs", ".git", ".venv"} <= set(ignored)
    assert not {"league", "storage", "analysis", "configs", "pyproject.toml", "README.md"} & set(ignored)


def test_every_file_is_mentioned_where_clusters_are_explained():
    assert [path.name for path in FILES if f"configs/cluster/{path.name}" not in PAGE] == []
