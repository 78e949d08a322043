"""Settings that belong to a handle rather than to the table: where bytes live and how patiently to ask for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Back-off of transient store failures: `base_seconds`, doubled each time, never above `cap_seconds`."""

    attempts: int = 6
    base_seconds: float = 0.1
    cap_seconds: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Everything needed to open the same store again, in this process or in a Spark task.

    `options` are obstore's own keys (`aws_endpoint`, `aws_region`, `google_service_account`, ...); what is absent
    is taken from the environment, as the vendors' own tools do.
    """

    uri: str
    # Secrets may be among them: never shown.
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
