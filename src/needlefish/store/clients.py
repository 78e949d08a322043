"""obstore clients for each backend, from the user's options and the vendors' environment variables."""

import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from obstore.exceptions import BaseError, UnknownConfigurationKeyError
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from needlefish.errors import InvalidError
from needlefish.store.location import Location

if TYPE_CHECKING:
    # obstore has the name in its stubs alone.
    from obstore.store import ObjectStore as Client

# Ours govern: obstore's would multiply the waiting and hide attempts from the meter.
_NO_RETRIES: Any = {"max_retries": 0}


def client_for(location: Location, options: Mapping[str, str]) -> "Client":
    """A client for a remote or memory location; wrong options are named, never their values, which may be secrets."""
    build = _BUILDERS[location.backend]
    try:
        return build(location, dict(options))
    except UnknownConfigurationKeyError as error:
        raise InvalidError(f"options={sorted(options)} for {location.uri}: {_first_line(error)} Use obstore's names for them") from error
    except (BaseError, ValueError, TypeError) as error:
        raise InvalidError(f"options={sorted(options)} for {location.uri}: {_first_line(error)}; correct the option") from error


def check_no_options(location: Location, options: Mapping[str, str]) -> None:
    if options:
        raise InvalidError(f"options={sorted(options)}: {location.uri} takes none; leave them out")


@cache
def _memory(name: str) -> MemoryStore:
    # One namespace per name for the life of the process, so that two handles of one URI meet.
    return MemoryStore()


def _build_memory(location: Location, options: dict[str, str]) -> "Client":
    check_no_options(location, options)
    return _memory(location.container)


def _build_s3(location: Location, options: dict[str, str]) -> "Client":
    _check_endpoint(options)
    return S3Store(location.container, config=_config(options), retry_config=_NO_RETRIES)


def _build_gs(location: Location, options: dict[str, str]) -> "Client":
    return GCSStore(location.container, config=_config(options), retry_config=_NO_RETRIES)


def _build_az(location: Location, options: dict[str, str]) -> "Client":
    if location.account is not None:
        options = {"azure_storage_account_name": location.account, **options}
    return AzureStore(location.container, config=_config(options), retry_config=_NO_RETRIES)


_BUILDERS: dict[str, Callable[[Location, dict[str, str]], "Client"]] = {
    "memory": _build_memory,
    "s3": _build_s3,
    "gs": _build_gs,
    "az": _build_az,
}


def _config(options: dict[str, str]) -> Any:
    # obstore types its options as one record per vendor; ours are a mapping that it checks at run time.
    return options


def _check_endpoint(options: dict[str, str]) -> None:
    """An endpoint without TLS must be allowed by name; obstore would only say "builder error", at the first request."""
    endpoint = _setting(options, ("aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3", "endpoint", "endpoint_url"))
    if endpoint.startswith("http://") and _setting(options, ("aws_allow_http", "allow_http")).lower() not in ("true", "1"):
        raise InvalidError(f"aws_endpoint={endpoint!r} is not encrypted: use https, or set the option allow_http to 'true'")


def _setting(options: dict[str, str], names: tuple[str, ...]) -> str:
    """An option, or the environment variable of the same name, as obstore looks them up."""
    given = {key.lower(): value for key, value in options.items()}
    found = [given[name] for name in names if name in given]
    return (found or [os.environ[key] for key in map(str.upper, names) if key.startswith("AWS_") and key in os.environ] or [""])[0]


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
