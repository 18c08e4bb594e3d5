"""Startup kits: who is who, with certificates; what a site's process may load, and what nobody may do there."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import baton
from baton.deploy.plan import ADMIN, Plan
from baton.deploy.policy import WRITTEN
from baton.errors import BadInput

DAYS = 1095  # that the root certificate lasts
LAST = 360  # that everybody's own lasts: FLARE has no option for it
SITE_APP, SERVER_APP = "baton.deploy.flare.apps.SiteApp", "baton.deploy.flare.apps.ServerApp"
BADGE, DOOR = "baton.deploy.flare.door.Badge", "baton.deploy.flare.door.Door"
SITE_CLASSES = [SITE_APP, BADGE, "nvflare.collab.runtime.executor.CollabExecutor"]
SERVER_CLASSES = [SERVER_APP, DOOR, "nvflare.collab.runtime.controller.CollabController"]

SITE_README = """\
The kit of the site {site} in the federation {federation}. It holds a private key: nobody else may have it.

    pip install 'baton-fl[deploy]'
    baton site start THIS_FOLDER --data FILE.csv

lists what your policy (local/policy.toml) lets out of your site, and asks whether you agree. Nothing is started, and
nothing is sent, before you do. Ctrl-C ends it.
"""
SERVER_README = "The server's kit: it stays here. 'baton deploy start' uses it; start nothing in it by hand.\n"


def needed() -> None:
    """FLARE is an extra."""
    try:
        import nvflare  # noqa: F401
    except ImportError:
        raise BadInput("deploy: nvflare is not installed; pip install 'baton-fl[deploy]' is right") from None


def project(plan: Plan) -> dict[str, Any]:
    """What FLARE's provisioning is given."""
    impl = "nvflare.lighter.impl"
    server = {"name": plan.server, "type": "server", "org": "server", "fed_learn_port": plan.port}
    sites = [{"name": site.name, "type": "client", "org": site.org} for site in plan.sites]
    admin = {"name": ADMIN, "type": "admin", "org": "server", "role": "project_admin"}
    builders = {
        "workspace.WorkspaceBuilder": {"template_file": ["master_template.yml"]},
        "static_file.StaticFileBuilder": {"config_folder": "config", "scheme": "grpc"},
        "cert.CertBuilder": {"root_valid_days": DAYS},
        "signature.SignatureBuilder": {},
    }
    return {
        "api_version": 3,
        "name": plan.name,
        "description": f"the federation {plan.name}",
        "participants": [server, *sites, admin],
        "builders": [{"path": f"{impl}.{path}", "args": args} for path, args in builders.items()],
    }


def provision(plan: Plan, folder: Path) -> None:
    """folder/kits/NAME for everybody; a second call leaves the certificates that are there."""
    needed()
    folder = folder.resolve()  # the server's process goes to another one
    kits, work = folder / "kits", folder / "workspace"
    if kits.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    work.mkdir(mode=0o700, exist_ok=True)
    work.chmod(0o700)  # FLARE keeps everybody's keys there, the root's too, in a file that all may read
    file = folder / "project.yml"
    file.write_text(json.dumps(project(plan), indent=1) + "\n")  # JSON is YAML
    words = [sys.executable, "-m", "nvflare.lighter.provision", "-p", str(file), "-w", str(work), "--force"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    made = work / plan.name / "prod_00"
    if done.returncode or not made.is_dir():
        last = [line for line in done.stderr.splitlines() if " — " in line] or ["no reason told"]
        raise BadInput(f"deploy: provisioning failed: {last[0].strip()}")
    staged = folder / ".kits"
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(made, staged)
    _server(staged / plan.server)
    for site in plan.sites:
        _site(staged / site.name, plan, site.name)
    os.rename(staged, kits)


def _site(kit: Path, plan: Plan, name: str) -> None:
    """Our classes and no others, no code that comes with a job, no logs that leave, nobody who looks at files."""
    local = kit / "local"
    resources = json.loads((local / "resources.json.default").read_text())
    resources |= {"class_allow_list": SITE_CLASSES, "allow_log_streaming": False}
    resources["components"] = [each for each in resources["components"] if each["id"] != "site_log_streamer"]
    resources["components"].append({"id": "badge", "path": BADGE, "args": {}})
    rights = {
        "submit_job": "any",
        "clone_job": "none",
        "manage_job": "any",
        "download_job": "none",
        "view": "any",
        "operate": "any",
        "shell_commands": "none",
        "byoc": "none",
    }
    _write(local / "resources.json", resources)
    _write(local / "authorization.json", {"format_version": "1.0", "permissions": {"project_admin": rights}})
    about = {"federation": plan.name, "site": name, "org": plan.org(name), "data": plan.data}
    _write(local / "baton.json", {**about, "baton": baton.__version__})
    (local / "policy.toml").write_text(WRITTEN)
    _readme(kit, SITE_README.format(site=name, federation=plan.name))


def _server(kit: Path) -> None:
    """Its jobs lie in the kit, not in a temporary folder."""
    local = kit / "local"
    _readme(kit, SERVER_README)
    resources = json.loads((local / "resources.json.default").read_text())
    resources["class_allow_list"] = SERVER_CLASSES
    resources["servers"][0]["heart_beat_timeout"] = 30
    storage = resources["snapshot_persistor"]["args"]["storage"]["args"]
    storage["root_dir"] = str(kit.parent.parent / "flare" / "snapshots")
    resources["components"] = [each for each in resources["components"] if each["id"] != "log_receiver"]
    resources["components"].append({"id": "door", "path": DOOR, "args": {"folder": str(kit.parent.parent)}})
    for each in resources["components"]:
        if each["id"] == "job_scheduler":
            each["args"] = {"max_jobs": 1, "max_schedule_count": 100, "min_schedule_interval": 0.5}
        if each["id"] == "job_manager":
            each["args"]["uri_root"] = str(kit.parent.parent / "flare" / "jobs")
    _write(local / "resources.json", resources)


def _readme(kit: Path, text: str) -> None:
    """Ours in place of FLARE's, whose scripts start a process that stays, with no data and before anybody agreed."""
    (kit / "readme.txt").write_text(text)
    for script in (kit / "startup").glob("*.sh"):
        script.unlink()


def _write(path: Path, table: dict[str, Any]) -> None:
    path.write_text(json.dumps(table, indent=1) + "\n")


def job(folder: Path) -> Path:
    """A job is three files and no code: where the server finds its plan is all that it says."""
    place = folder / "flare" / "job"
    config = place / "app" / "config"
    config.mkdir(parents=True, exist_ok=True)
    meta = {"name": "baton", "resource_spec": {}, "min_clients": 1, "deploy_map": {"app": ["@ALL"]}}
    runtime, threads = "nvflare.collab.runtime", {"max_call_threads": 16}
    server = {
        "format_version": 2,
        "server": {"task_request_interval": 0.1},
        "workflows": [
            {
                "id": "controller",
                "path": f"{runtime}.controller.CollabController",
                "args": {"server_obj_id": "app", **threads},
            }
        ],
        "components": [{"id": "app", "path": SERVER_APP, "args": {"folder": str(folder.resolve())}}],
    }
    executor = {"path": f"{runtime}.executor.CollabExecutor", "args": {"client_obj_id": "app", **threads}}
    client = {
        "format_version": 2,
        "executors": [{"tasks": ["*"], "executor": executor}],
        "components": [{"id": "app", "path": SITE_APP, "args": {}}],
    }
    _write(place / "meta.json", meta)
    _write(config / "config_fed_server.json", server)
    _write(config / "config_fed_client.json", client)
    return place
