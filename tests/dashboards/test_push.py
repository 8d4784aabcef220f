"""Pushing through the official client, to a stand-in for Datadog's API that keeps what it gets."""

from __future__ import annotations

import copy
import json
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from datadog_api import API_KEY, APP_KEY, FakeDatadog, fake_datadog

from pushmetrics.dashboards import Template, load, load_all
from pushmetrics.dashboards.account import Account, account
from pushmetrics.dashboards.api import PAGE, TRIES, DatadogApi
from pushmetrics.dashboards.push import apply, plan
from pushmetrics.dashboards.render import render
from pushmetrics.errors import InvalidValueError, PushmetricsError

KEYS = {"DD_API_KEY": API_KEY, "DD_APP_KEY": APP_KEY}


@pytest.fixture
def fake() -> Iterator[FakeDatadog]:
    with fake_datadog() as running:
        yield running


@pytest.fixture
def waits() -> list[float]:
    """For how long was waited before another try."""
    return []


@pytest.fixture
def api(fake: FakeDatadog, waits: list[float]) -> Iterator[DatadogApi]:
    yield DatadogApi(account({**KEYS, "DATADOG_HOST": fake.url}), waits.append)
    from datadog.api.http_client import RequestClient

    # The client keeps its connections for the life of the process.
    if RequestClient._session is not None:
        RequestClient._session.close()


def push(api: DatadogApi, templates: list[Template]) -> list[str]:
    changes = plan(api, templates)
    for change in changes:
        apply(api, change)
    return [change.action for change in changes]


def test_what_is_pushed_is_kept_and_a_second_push_changes_nothing(api: DatadogApi, fake: FakeDatadog) -> None:
    templates = load_all()

    assert push(api, templates) == ["create"] * 7
    assert {body["title"] for body in fake.dashboards.values()} == {one.title for one in templates[:2]}
    assert {body["name"] for body in fake.monitors.values()} == {one.title for one in templates[2:]}
    kept = copy.deepcopy((fake.dashboards, fake.monitors))
    before = len(fake.writes)

    assert push(api, templates) == ["keep"] * 7
    assert len(fake.writes) == before == 7
    assert (fake.dashboards, fake.monitors) == kept


def test_what_differs_is_updated_in_its_place(api: DatadogApi, fake: FakeDatadog) -> None:
    push(api, load_all())
    (identifier,) = (key for key, body in fake.dashboards.items() if body["title"] == load("limit_detail").title)
    fake.dashboards[identifier]["widgets"][1]["definition"]["title"] = "Mine"
    (number,) = (key for key, body in fake.monitors.items() if body["name"] == load("oldest_wait").title)
    fake.monitors[number]["options"]["thresholds"]["critical"] = 99.0
    before = len(fake.writes)

    changes = {change.template.name: change for change in plan(api, load_all()) if change.action != "keep"}
    assert fake.writes[before:] == []
    assert '-        "title": "Mine",' in changes["limit_detail"].diff
    assert '-      "critical": 99.0' in changes["oldest_wait"].diff
    for change in changes.values():
        apply(api, change)

    assert fake.writes[before:] == [("PUT", f"/dashboard/{identifier}"), ("PUT", f"/monitor/{number}")]
    assert fake.dashboards[identifier]["widgets"][1]["definition"]["title"] == "Now"
    assert fake.monitors[number]["options"]["thresholds"]["critical"] == 30000
    assert push(api, load_all()) == ["keep"] * 7


def test_two_namespaces_are_two_sets(api: DatadogApi, fake: FakeDatadog) -> None:
    push(api, render(load_all()))
    push(api, render(load_all(), namespace="my.limits"))

    assert len(fake.dashboards) == 4
    assert len(fake.monitors) == 9  # The reporter's health has one name, whatever the namespace.
    assert push(api, render(load_all())) == ["keep"] * 7


def test_what_somebody_else_made_is_left_alone(api: DatadogApi, fake: FakeDatadog) -> None:
    dashboard, monitor = load("limit_detail").body, load("oldest_wait").body
    fake.add_dashboard(dashboard | {"description": "mine, with the same title"})
    fake.add_monitor(monitor | {"tags": ["team:mine"]})
    kept = copy.deepcopy((fake.dashboards, fake.monitors))

    assert push(api, load_all()) == ["create"] * 7
    assert (fake.dashboards | kept[0], fake.monitors | kept[1]) == (fake.dashboards, fake.monitors)


def test_two_that_could_be_meant_are_an_error_before_anything_is_written(api: DatadogApi, fake: FakeDatadog) -> None:
    for _ in range(2):
        fake.add_dashboard(load("limit_detail").body)

    with pytest.raises(PushmetricsError, match=r"there are 2 managed dashboards called .*; delete all but one"):
        plan(api, load_all())
    assert fake.writes == []


@pytest.mark.parametrize(
    ("name", "unmarked", "complaint"),
    [
        ("limit_detail", {"description": "mine"}, "add the sentence 'Managed by pushmetrics' in its description"),
        ("oldest_wait", {"tags": ["team:mine"]}, "add managed_by:pushmetrics"),
        ("oldest_wait", {"tags": 5}, "add managed_by:pushmetrics"),
    ],
)
def test_without_a_mark_nothing_is_pushed(
    api: DatadogApi, fake: FakeDatadog, name: str, unmarked: dict[str, object], complaint: str
) -> None:
    template = load(name)

    with pytest.raises(PushmetricsError, match=f"{name} has no mark, so it would be made anew each time; {complaint}"):
        plan(api, [Template(name, template.kind, template.body | unmarked)])
    assert fake.calls == []


@pytest.mark.parametrize("field", ["id", "params", "what"])
def test_what_is_no_field_of_a_template_is_not_pushed(api: DatadogApi, fake: FakeDatadog, field: str) -> None:
    template = load("limit_detail")
    exported = Template("mine", template.kind, template.body | {field: "abc-def-ghi"})

    with pytest.raises(PushmetricsError, match=f"mine holds {field}, which a template may not"):
        plan(api, [exported])
    assert fake.calls == []


def test_an_account_with_many_dashboards_is_read_to_its_end(api: DatadogApi, fake: FakeDatadog) -> None:
    for number in range(2 * PAGE + 5):
        fake.add_dashboard({"title": f"number {number}", "description": None, "widgets": []})
    fake.add_dashboard(load("limit_detail").body)

    assert push(api, [load("limit_detail")]) == ["keep"]


@pytest.mark.parametrize(
    ("status", "body", "complaint"),
    [
        (401, {"errors": ["Unauthorized"]}, "Datadog answered 401; the keys were not accepted; check DD_API_KEY"),
        (403, {"errors": ["Forbidden"]}, "Datadog answered 403; the keys may not do this; .* dashboards_read"),
        (404, {"errors": ["Not found"]}, "Datadog answered 404; it is not there"),
        (400, {"errors": ["bad\nwidget", f"key {APP_KEY}"]}, r"Datadog answered 400; bad widget; key \*\*\*"),
        (400, {}, "Datadog answered 400; it does not say why"),
        (409, {"errors": ["Conflict"]}, "Datadog answered 409; Conflict"),
        (500, {"errors": ["oh"]}, "bad HTTP response code: 500"),
        (503, b"", "bad HTTP response code: 503"),
        (200, b"<html>log in</html>", "is not what Datadog's API does; check DD_SITE, DATADOG_HOST and proxies"),
        (200, b"\xff\xfe", "is not what Datadog's API does"),
        (200, b"[" * 100_000, "is not what Datadog's API does"),
        (200, [1, 2], "what came as the list of dashboards is none; check DD_SITE"),
        (200, {"dashboards": [1]}, "what came as the list of dashboards is none"),
        (200, None, "what came as the list of dashboards is none"),
        (200, b"", "what came as the list of dashboards is none"),
    ],
)
def test_an_answer_that_is_no_use_is_one_clear_error(
    api: DatadogApi, fake: FakeDatadog, status: int, body: object, complaint: str
) -> None:
    fake.refuse(status, body)

    with pytest.raises(PushmetricsError, match=complaint) as caught:
        plan(api, load_all())

    text = "".join(traceback.format_exception(caught.value))
    assert API_KEY not in text
    assert APP_KEY not in text
    assert len(fake.calls) == 1


def test_a_rate_limit_is_waited_for(api: DatadogApi, fake: FakeDatadog, waits: list[float]) -> None:
    fake.refuse(429, {"errors": ["Rate limited"]}, X_RateLimit_Reset="7")
    fake.refuse(429, {"errors": ["Rate limited"]}, X_RateLimit_Reset="3600")
    fake.refuse(429, {"errors": ["Rate limited"]}, X_RateLimit_Reset="soon")
    fake.refuse(429, b"")

    assert push(api, load_all()) == ["create"] * 7
    assert waits == [7, 60, 1, 1]


def test_a_rate_limit_that_stays_is_an_error(api: DatadogApi, fake: FakeDatadog, waits: list[float]) -> None:
    fake.refuse(429, {"errors": ["Rate limited"]}, times=TRIES)

    with pytest.raises(PushmetricsError, match=f"429; the rate limit is still reached after {TRIES} tries"):
        plan(api, load_all())
    assert len(waits) == TRIES - 1


def test_a_wrong_key_is_an_error_that_does_not_show_it(fake: FakeDatadog) -> None:
    api = DatadogApi(account({**KEYS, "DD_API_KEY": "f" * 32, "DATADOG_HOST": fake.url}))

    with pytest.raises(PushmetricsError, match="answered 403") as caught:
        plan(api, load_all())
    assert "f" * 32 not in str(caught.value)
    assert APP_KEY not in repr(api)


def test_nobody_there_is_an_error_that_says_where() -> None:
    api = DatadogApi(account({**KEYS, "DATADOG_HOST": "http://127.0.0.1:1"}))

    with pytest.raises(PushmetricsError, match=r"http://127\.0\.0\.1:1 can not be reached; check the network"):
        plan(api, load_all())


class TestTheAccount:
    @pytest.mark.parametrize(
        ("site", "url"),
        [
            (None, "https://api.datadoghq.com"),
            ("", "https://api.datadoghq.com"),
            ("datadoghq.eu", "https://api.datadoghq.eu"),
            (" US3.datadoghq.com ", "https://api.us3.datadoghq.com"),
            ("ddog-gov.com", "https://api.ddog-gov.com"),
        ],
    )
    def test_the_site_makes_the_address(self, site: str | None, url: str) -> None:
        environ = KEYS if site is None else {**KEYS, "DD_SITE": site}

        assert account(environ) == Account(url, API_KEY, APP_KEY)

    def test_the_official_clients_own_variables_win(self) -> None:
        environ = {"DATADOG_API_KEY": "a", "DATADOG_APP_KEY": "b", "DATADOG_HOST": "https://proxy.example/dd/"}

        assert account({**KEYS, **environ}) == Account("https://proxy.example/dd", "a", "b")

    @pytest.mark.parametrize(
        ("variables", "complaint"),
        [
            ({"DD_SITE": "https://app.datadoghq.eu"}, "DD_SITE is a site such as datadoghq.com"),
            ({"DD_SITE": "app.datadoghq.eu"}, "without https:// and app., got 'app.datadoghq.eu'"),
            ({"DD_SITE": "datadoghq"}, "DD_SITE is a site such as"),
            ({"DD_SITE": "datadoghq.com/evil"}, "DD_SITE is a site such as"),
            ({"DD_SITE": "datadoghq.com\r\nX: y"}, "DD_SITE is a site such as"),
            ({"DATADOG_HOST": "http://api.datadoghq.com"}, "the keys would go to api.datadoghq.com in plain text"),
            ({"DATADOG_HOST": "ftp://api.datadoghq.com"}, "DATADOG_HOST is an address such as"),
            ({"DATADOG_HOST": "https://me:secret@x.example"}, "DATADOG_HOST is an address such as"),
            ({"DATADOG_HOST": "https://:secret@x.example"}, "DATADOG_HOST is an address such as"),
            ({"DATADOG_HOST": "https://x.example/?token=secret"}, "DATADOG_HOST is an address such as"),
            ({"DATADOG_HOST": "https://x.example/\x1b[31m"}, "DATADOG_HOST is an address such as"),
            ({"DATADOG_HOST": "http://[::1"}, "DATADOG_HOST is an address such as"),
            ({"DD_API_KEY": ""}, "DD_API_KEY is not set"),
            ({"DD_APP_KEY": " "}, "DD_APP_KEY is not set"),
            ({"DD_APP_KEY": "top secret"}, "DD_APP_KEY holds spaces or other characters that no key has"),
            ({"DD_API_KEY": "top\nsecret"}, "DD_API_KEY holds spaces or other characters"),
            ({"DD_API_KEY": "secrét"}, "DD_API_KEY holds spaces or other characters"),
        ],
    )
    def test_what_is_missing_or_bad_is_an_error_without_secrets(
        self, variables: dict[str, str], complaint: str
    ) -> None:
        with pytest.raises(InvalidValueError) as caught:
            account({**KEYS, **variables})

        assert complaint in str(caught.value)
        assert "secr" not in str(caught.value)
        assert str(caught.value).isprintable()

    def test_the_keys_are_not_shown(self) -> None:
        text = f"{account(KEYS)} {account(KEYS)!r} {account(KEYS).hide(f'{API_KEY} and {APP_KEY}!')}"

        assert API_KEY not in text
        assert APP_KEY not in text
        assert text.endswith("*** and ***!")


class TestTheCommand:
    def run(self, fake: FakeDatadog | None, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environ = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        environ |= KEYS if fake is None else {**KEYS, "DATADOG_HOST": fake.url}
        finished = subprocess.run(
            [sys.executable, "-P", "-m", "pushmetrics", "dashboards", "push", *arguments],
            env=environ | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=50,
        )
        assert API_KEY not in finished.stdout + finished.stderr
        assert APP_KEY not in finished.stdout + finished.stderr
        return finished

    def test_it_says_what_it_does_and_a_dry_run_does_nothing(self, fake: FakeDatadog) -> None:
        dry = self.run(fake, "limit_detail", "oldest_wait", "--dry-run")

        assert dry.returncode == 0, dry.stderr
        assert fake.writes == []
        assert "would create  dashboard Concurrency limit (gym.concurrency)\n" in dry.stdout
        assert "+++ oldest_wait\n" in dry.stdout
        assert '+  "type": "query alert",\n' in dry.stdout

        created = self.run(fake, "limit_detail", "oldest_wait", "--notify", "@me")
        assert created.stdout == (
            "created    dashboard Concurrency limit (gym.concurrency)\n"
            "created    monitor A concurrency limit's oldest wait is too long (gym.concurrency)\n"
        )
        again = self.run(fake, "limit_detail", "oldest_wait", "--notify", "@me", "--dry-run")
        assert again.stdout.count("unchanged  ") == 2
        changed = self.run(fake, "oldest_wait", "--notify", "@you", "--dry-run")
        assert changed.stdout.startswith("would update  monitor ")
        assert len(fake.writes) == 2

    def test_nothing_reaches_the_terminal_but_text(self, fake: FakeDatadog, tmp_path: Path) -> None:
        evil = "\x1b]0;title\x07\x9b31m"
        body = load("limit_detail").body
        path = tmp_path / "mine.json"
        path.write_text(json.dumps(body | {"title": f"mine{evil}", "description": f"{body['description']}{evil}"}))
        dry = self.run(fake, str(path), "--dry-run")
        fake.refuse(400, {"errors": [f"bad{evil}"]})
        refused = self.run(fake, str(path))

        assert dry.stdout.startswith("would create  dashboard mine?]0;title??31m\n")
        assert refused.stderr.endswith("Datadog answered 400; bad?]0;title??31m\n")
        for text in (dry.stdout, refused.stderr):
            assert all(line.isprintable() for line in text.split("\n"))

    @pytest.mark.parametrize(
        ("variables", "complaint"),
        [
            ({"DD_API_KEY": "wrong"}, "could not list the dashboards: Datadog answered 403; the keys may not do this"),
            ({"DD_API_KEY": ""}, "DD_API_KEY is not set"),
            ({"DATADOG_HOST": "http://127.0.0.1:1"}, "http://127.0.0.1:1 can not be reached"),
            ({"DATADOG_HOST": "", "DD_SITE": "nowhere.invalid"}, "https://api.nowhere.invalid can not be reached"),
        ],
    )
    def test_an_error_is_one_line(self, fake: FakeDatadog, variables: dict[str, str], complaint: str) -> None:
        finished = self.run(fake, **variables)

        assert finished.returncode == 1
        assert finished.stdout == ""
        assert finished.stderr.startswith("Error: ")
        assert finished.stderr.count("\n") == 1
        assert complaint in finished.stderr


def test_the_client_logs_no_key(api: DatadogApi, fake: FakeDatadog, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        push(api, load_all())

    assert "/api/v1/dashboard" in caplog.text
    assert API_KEY not in caplog.text
    assert APP_KEY not in caplog.text
