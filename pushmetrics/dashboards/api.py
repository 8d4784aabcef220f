"""Datadog's API through the official client: dashboards and monitors, read and written, with errors that help."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from ..errors import PushmetricsError
from .account import Account
from .templates import Body

TRIES = 5
"""How often a call is made that is answered with 429."""

MIN_WAIT, MAX_WAIT = 1.0, 60.0
"""Seconds to wait before the next try; Datadog's limits are counted by the minute or less."""

PAGE = 100

_PARAMETERS = {"suppress_response_errors_on_codes": [400, 401, 403, 404, 409, 429]}
"""What the client is told with each call: not to raise these answers as one error without a number."""

_REASONS = {
    401: "the keys were not accepted; check DD_API_KEY and DD_APP_KEY, and that DD_SITE is the site that they are of",
    403: "the keys may not do this; check DD_API_KEY, that DD_APP_KEY has the scopes dashboards_read, "
    "dashboards_write, monitors_read and monitors_write, and that DD_SITE is the site that they are of",
    404: "it is not there; if nobody has deleted it meanwhile, check DD_SITE",
}


class DatadogApi:
    """Dashboards and monitors of one account. Raises :class:`pushmetrics.PushmetricsError` when Datadog says no."""

    def __init__(self, account: Account, sleep: Callable[[float], None] = time.sleep) -> None:
        import datadog
        from datadog.api.dashboards import Dashboard
        from datadog.api.monitors import Monitor

        self._account = account
        self._sleep = sleep
        # It warns of each try that fails; what comes of them is said once, in an error.
        logging.getLogger("urllib3").setLevel(logging.ERROR)
        # The client looks a host name up that only metrics would need, unless it is given one.
        datadog.initialize(
            api_key=account.api_key,
            app_key=account.app_key,
            api_host=account.url,
            host_name="pushmetrics",
            mute=False,
            return_raw_response=True,
        )
        self._dashboard = Dashboard
        self._monitor = Monitor

    def __repr__(self) -> str:
        return f"<DatadogApi at {self._account.url}>"

    def dashboards(self) -> Iterator[Body]:
        """Yield a summary of each dashboard: its id, title and description among it."""
        start = 0
        seen: set[str] = set()
        while True:
            answer = self._call("list the dashboards", self._dashboard.get_all, count=PAGE, start=start)
            page = _listed(answer, "dashboards")
            new = [summary for summary in page if str(summary.get("id")) not in seen]
            seen |= {str(summary.get("id")) for summary in new}
            yield from new
            start += len(page)
            if len(page) < PAGE or not new:
                return

    def dashboard(self, identifier: str) -> Body:
        """Return a whole dashboard."""
        return _object(self._call("read a dashboard", self._dashboard.get, identifier), "a dashboard")

    def monitors(self, tag: str) -> list[Body]:
        """Return all monitors that have a tag."""
        answer = self._call("list the monitors", self._monitor.get_all, monitor_tags=tag)
        return _listed({"monitors": answer}, "monitors")

    def create(self, kind: str, body: Body) -> None:
        """Make a dashboard or a monitor."""
        self._call(f"create a {kind}", self._resource(kind).create, params=_PARAMETERS, **body)

    def update(self, kind: str, identifier: Any, body: Body) -> None:
        """Write a dashboard or a monitor over."""
        self._call(f"update a {kind}", self._resource(kind).update, identifier, params=_PARAMETERS, **body)

    def _resource(self, kind: str) -> Any:
        return self._dashboard if kind == "dashboard" else self._monitor

    def _call(self, what: str, method: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        """Call the client, wait where Datadog asks for it, and return what is in its answer."""
        from datadog.api.exceptions import DatadogException

        if "params" not in more:  # To read, the client takes them all together.
            more |= _PARAMETERS
        for attempt in range(1, TRIES + 1):
            try:
                answer, response = method(*arguments, **more)
            except (DatadogException, OSError, ValueError, TypeError, RecursionError) as error:
                reason = _failure(error, self._account.url)
                raise PushmetricsError(self._account.hide(f"could not {what}: {reason}")) from None
            status = int(response.status_code)
            if status < 300:
                return answer
            if status == 429 and attempt < TRIES:
                self._sleep(_wait(response.headers))
                continue
            reason = _REASONS.get(status) or _errors(answer)
            if status == 429:
                reason = f"the rate limit is still reached after {TRIES} tries; try again in a few minutes"
            raise PushmetricsError(self._account.hide(f"could not {what}: Datadog answered {status}; {reason}"))
        raise AssertionError("the last try returns or raises")


def _wait(headers: Any) -> float:
    """Return for how long to wait: https://docs.datadoghq.com/api/latest/rate-limits/."""
    try:
        seconds = float(headers.get("X-RateLimit-Reset", MIN_WAIT))
    except ValueError:
        seconds = MIN_WAIT
    return min(MAX_WAIT, max(MIN_WAIT, seconds))


def _failure(error: Exception, url: str) -> str:
    """Return what went wrong before there was an answer, or what was wrong with the answer."""
    if isinstance(error, (ValueError, TypeError, RecursionError)) and not isinstance(
        error, OSError
    ):  # Those are of the network.
        return f"what {url} answers is not what Datadog's API does; check DD_SITE, DATADOG_HOST and proxies"
    if type(error).__name__ == "HTTPError":
        return str(error).partition(". ")[0]
    return f"{url} can not be reached; check the network, DD_SITE and proxies"


def _errors(answer: Any) -> str:
    errors = answer.get("errors") if isinstance(answer, dict) else None
    text = "; ".join(map(str, errors)) if isinstance(errors, list) else str(errors or "it does not say why")
    return " ".join(text.split())[:500]


def _listed(answer: Any, key: str) -> list[Body]:
    page = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(page, list) or not all(isinstance(item, dict) for item in page):
        _nonsense(f"the list of {key}")
    return page


def _object(answer: Any, what: str) -> Body:
    if not isinstance(answer, dict):
        _nonsense(what)
    return answer


def _nonsense(what: str) -> NoReturn:
    raise PushmetricsError(f"what came as {what} is none; check DD_SITE and DATADOG_HOST")
