"""URIs, options, and what is said when they are wrong."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from needlefish.config import RetryPolicy, StoreConfig
from needlefish.errors import InvalidError
from needlefish.store import Meter, Store, open_store
from needlefish.store.clients import client_for
from needlefish.store.location import locate
from needlefish.testing.s3 import S3Server


def test_a_relative_path_is_pinned_to_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(StoreConfig(uri="lake/table"))
    store.put("a", b"x")
    monkeypatch.chdir("/")
    assert store.get("a") == b"x"
    assert open_store(store.config).get("a") == b"x"
    assert (tmp_path / "lake" / "table" / "a").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/lake/t", "/lake/t"),
        ("/lake//t/../u/", "/lake/u"),
        ("file:///lake/t", "/lake/t"),
        ("file://localhost/lake/with%20space", "/lake/with space"),
        ("FILE:///lake/t", "/lake/t"),
        ("s3://bucket/lake/t/", "s3://bucket/lake/t"),
        ("s3a://bucket", "s3a://bucket"),
        ("memory://name/t", "memory://name/t"),
    ],
)
def test_uris_are_read_as_a_user_means_them(uri: str, expected: str) -> None:
    assert open_store(StoreConfig(uri=uri)).uri == expected


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_store(StoreConfig(uri="~/lake")).uri == str(tmp_path / "lake")


@pytest.mark.parametrize(
    ("uri", "options", "words"),
    [
        ("", {}, "uri='' is empty"),
        ("ftp://host/x", {}, "no store is known for ftp://"),
        ("s3://", {}, "names no bucket: write s3://<bucket>/<path>"),
        ("s3:///path", {}, "names no bucket"),
        ("gs://", {}, "names no bucket: write gs://"),
        ("memory://", {}, "names no bucket"),
        ("s3://bucket/a/../b", {}, "leave out empty segments"),
        ("file://relative", {}, "three slashes"),
        ("/lake", {"aws_region": "x"}, "takes none; leave them out"),
        ("memory://m", {"aws_region": "x"}, "takes none; leave them out"),
        ("s3://bucket", {"aws_regoin": "x"}, "'aws_regoin' is not valid"),
        ("gs://bucket", {"aws_region": "x"}, "'aws_region' is not valid"),
        ("az://container", {"account": "x"}, "'account' is not valid"),
        ("s3://bucket", {"timeout": "soon"}, "options=.'timeout'."),
        ("az://container/t", {}, "Account must be specified"),
        ("s3://bucket", {"aws_endpoint": "http://10.0.0.1:9000"}, "aws_endpoint='http://10.0.0.1:9000' is not encrypted"),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(uri: str, options: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    with pytest.raises(InvalidError, match=words):
        open_store(StoreConfig(uri=uri, options=options))


def test_a_wrong_option_does_not_leak_a_secret() -> None:
    with pytest.raises(InvalidError) as caught:
        open_store(StoreConfig(uri="s3://bucket", options={"aws_secret_access_key": "hunter2", "aws_regoin": "x"}))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "container", "prefix", "account"),
    [
        ("az://container/lake/t", "container", "lake/t", None),
        ("abfss://container@account.dfs.core.windows.net/lake/t", "container", "lake/t", "account"),
        ("gs://bucket/lake/t", "bucket", "lake/t", None),
    ],
)
def test_cloud_uris_name_container_prefix_and_account(uri: str, container: str, prefix: str, account: str | None) -> None:
    location = locate(uri)
    assert (location.container, location.prefix, location.account) == (container, prefix, account)


def test_cloud_clients_open_without_asking_anything() -> None:
    azure = client_for(locate("abfss://container@account.dfs.core.windows.net/t"), {})
    assert repr(azure) == 'AzureStore(container_name="container", account_name="account")'
    assert repr(client_for(locate("gs://bucket/t"), {})) == 'GCSStore(bucket="bucket")'


def test_memory_stores_of_one_name_are_one(fresh_name: str) -> None:
    open_store(StoreConfig(uri=f"memory://{fresh_name}/lake/t")).put("a/b", b"x")
    assert open_store(StoreConfig(uri=f"memory://{fresh_name}")).get("lake/t/a/b") == b"x"
    assert list(open_store(StoreConfig(uri=f"memory://{fresh_name}-other")).list()) == []


def test_a_configuration_travels_to_another_process(tmp_path: Path) -> None:
    config = StoreConfig(uri=str(tmp_path), retry=RetryPolicy(attempts=2))
    open_store(config).put("a", b"x")
    copy = pickle.loads(pickle.dumps(open_store(config).config))
    assert copy == config
    assert open_store(copy).get("a") == b"x"


def test_s3_settings_come_from_the_environment(s3: S3Server, fresh_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    with pytest.raises(InvalidError, match="allow_http"):
        open_store(StoreConfig(uri=s3.config(fresh_name).uri))
    for name, value in (("ALLOW_HTTP", "true"), ("ACCESS_KEY_ID", "testing"), ("SECRET_ACCESS_KEY", "testing"), ("REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    open_store(StoreConfig(uri=s3.config(fresh_name).uri)).put("a", b"x")
    assert open_store(s3.config(fresh_name)).get("a") == b"x"


def test_s3_by_path_or_by_virtual_host(scripted: Any) -> None:
    """With virtual hosts the endpoint names the bucket, so the path does not."""
    open_store(scripted.config()).put("a", b"x")
    assert scripted.asked == ["PUT /bucket/root/a"]
    open_store(scripted.config(aws_virtual_hosted_style_request="true")).put("a", b"x")
    assert scripted.asked == ["PUT /root/a"]


def test_a_given_meter_is_used(tmp_path: Path) -> None:
    meter = Meter()
    store = open_store(StoreConfig(uri=str(tmp_path)), meter=meter)
    store.put("a", b"xyz")
    assert store.meter is meter
    assert meter.snapshot().put.bytes == 3
    assert isinstance(store, Store)
