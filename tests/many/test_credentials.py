"""Processes of a run take orders from it alone: TLS, with credentials made for it."""

import stat
from pathlib import Path

import pytest

from riesz.errors import RieszError
from riesz_many.scheduler import PLAIN, Pool, connect, queue

distributed = pytest.importorskip("distributed", reason="comes with the extra cluster")
config = pytest.importorskip("dask.config")

HERE = Pool(1)


def answer():
    return 42


def asked(address, security=None):
    with distributed.Client(address, security=security, timeout=2) as client:
        return client.run_on_scheduler(answer)


@pytest.fixture(scope="module")
def own():
    """The client of a run that has a scheduler and no process yet."""
    with connect(HERE) as client:
        yield client


def test_only_who_has_the_credentials_of_a_run_can_run_code_on_its_scheduler(own):
    address = own.scheduler.address
    assert address.startswith("tls://127.0.0.1:")
    assert own.run_on_scheduler(answer) == asked(address, own.security) == 42
    with pytest.raises(OSError, match=r"reset by peer|closed"):
        asked(address.replace("tls://", "tcp://"))
    with pytest.raises(TypeError, match="ssl_context"):
        asked(address)
    with pytest.raises((AssertionError, OSError)):
        asked(address, distributed.Security.temporary())


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "host:8786", "ws://host:80", "sge"])
def test_a_scheduler_without_tls_is_refused(address):
    with (
        pytest.raises(RieszError, match=rf"is no address with TLS.*run code as you.*{PLAIN}=1"),
        connect(Pool(cluster=address)),
    ):
        pass


def test_a_scheduler_without_tls_is_met_where_the_user_wants_it(monkeypatch):
    monkeypatch.setenv(PLAIN, "1")
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as plain,
        connect(Pool(cluster=plain.scheduler_address)) as client,
    ):
        assert client.run_on_scheduler(answer) == 42


def test_a_scheduler_with_tls_is_met_by_the_certificates_of_dask_and_by_no_others(own, tmp_path):
    pool = Pool(cluster=own.scheduler.address)
    tls = own.security.get_tls_config_for_role("client")
    files = {name: tmp_path / name for name in ("ca_file", "cert", "key")}
    for name, file in files.items():
        file.write_text(tls[name])
    told = {
        "distributed.comm.tls.ca-file": str(files["ca_file"]),
        "distributed.comm.tls.client.cert": str(files["cert"]),
        "distributed.comm.tls.client.key": str(files["key"]),
    }
    with config.set(told), connect(pool) as client:
        assert client.run_on_scheduler(answer) == 42
    with pytest.raises(RieszError, match="Certificates for TLS"), connect(pool):
        pass


def test_keys_of_jobs_of_a_queue_are_files_for_their_owner_only(tmp_path):
    pytest.importorskip("dask_jobqueue", reason="comes with the extra cluster")
    job = {"cores": 1, "memory": "1GB", "shared-temp-directory": str(tmp_path)}
    told = {f"jobqueue.slurm.{name}": value for name, value in job.items()}
    with config.set(told), queue("slurm") as cluster:
        assert cluster.scheduler_address.startswith("tls://")
        script = cluster.job_script().split()
        key = Path(script[script.index("--tls-key") + 1])
        assert "PRIVATE KEY" in key.read_text()
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        with pytest.raises(TypeError, match="ssl_context"):
            asked(cluster.scheduler_address)
    assert not list(tmp_path.iterdir())
