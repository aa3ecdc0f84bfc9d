"""Durations and times as Go reads and writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.api.meta import (
    decode_duration,
    format_instant,
    format_time,
    parse_duration,
    parse_time,
)
from keyferry.errors import DurationError, TimeError

SECOND = 1_000_000_000
LAYOUT = "2006-01-02T15:04:05Z07:00"

DURATIONS = [
    pytest.param("1us1µs1μs", 3000, id="both letters for micro"),
    pytest.param("1." + "0" * 400 + "1s", SECOND, id="a long fraction"),
    pytest.param("0.9999999999999999999999s", SECOND, id="a fraction beyond 64 bits"),
    pytest.param("0" * 5000 + "1s", SECOND, id="more digits than Python reads"),
]

BAD_DURATIONS = [
    pytest.param("", "'' is not a duration", id="empty"),
    pytest.param(".s", "'.s' is not a duration", id="no digit"),
    pytest.param("\u0661s", "'\u0661s' is not a duration", id="other digits"),
    pytest.param("5", "'5' has a number without a unit", id="no unit"),
    pytest.param("1d", "'1d' has the unknown unit 'd'", id="days"),
    pytest.param("1h-1m", "'1h-1m' has the unknown unit 'h-'", id="a sign inside"),
    pytest.param("9223372036854775808ns", "is longer than 292 years", id="one too many"),
    pytest.param("9223372036854775809", "is longer than 292 years", id="too many without a unit"),
    pytest.param("2562047h2562047h1d", "is longer than 292 years", id="too long before an unknown unit"),
    pytest.param("9" * 5000 + "h", "is longer than 292 years", id="more digits than Python reads"),
]

TIMES = [
    ("1970-01-01T00:00:00Z", 0),
    ("1969-12-31T23:59:59.9Z", -SECOND // 10),
    ("2024-02-29T12:30:15Z", 1709209815 * SECOND),
    ("1970-01-01T1:00:00Z", 3600 * SECOND),
    ("1970-01-01T00:00:00.5Z", SECOND // 2),
    ("1970-01-01T00:00:00,25Z", SECOND // 4),
    ("1970-01-01T00:00:00.0000000019Z", 1),
    ("1970-01-02T00:00:00+24:00", 0),
    ("1970-01-01T01:00:00+00:60", 0),
    ("1970-01-01T00:00:00-01:30", 5400 * SECOND),
    ("0001-01-01T00:00:00Z", -62135596800 * SECOND),
    ("0000-02-29T00:00:00Z", -62162121600 * SECOND),
    ("9999-12-31T23:59:59Z", 253402300799 * SECOND),
]

BAD_TIMES = [
    *(
        (text, f' as "{LAYOUT}": cannot parse {part}')
        for text, part in (
            ("tomorrow", '"tomorrow" as "2006"'),
            ("2024-01-01", '"" as "T"'),
            ("2024-1-01T00:00:00Z", '"1-01T00:00:00Z" as "01"'),
            ("2024-01-01T00:00:00z", '"z" as "Z07:00"'),
            ("2024-01-01T00:00:00", '"" as "Z07:00"'),
            ("2024-01-01T00:00:00.Z", '".Z" as "Z07:00"'),
            ("2024-01-01T00:00:00+1:00", '"+1:00" as "Z07:00"'),
            ("2024-01-01T00:00:00*01:00", '"*01:00" as "Z07:00"'),
            ("2024-01-01T00:00:00+\u06601:00", r'"+\xd9\xa01:00" as "Z07:00"'),
        )
    ),
    ("2024-13-01T00:00:00Z", ": month out of range"),
    ("2024-00-01T00:00:00Z", ": month out of range"),
    ("2023-02-29T00:00:00Z", ": day out of range"),
    ("2024-12-32T00:00:00Z", ": day out of range"),
    ("2024-01-00T00:00:00Z", ": day out of range"),
    ("2024-01-01T24:00:00Z", ": hour out of range"),
    ("2024-01-01T00:60:00Z", ": minute out of range"),
    ("2024-12-31T23:59:60Z", ": second out of range"),
    ("2024-01-01T00:00:00+25:00", ": time zone offset hour out of range"),
    ("2024-01-01T00:00:00+00:61", ": time zone offset minute out of range"),
    ("2024-01-01T00:00:00Zulu", ': extra text: "ulu"'),
]


@pytest.mark.parametrize(("text", "nanoseconds"), DURATIONS)
def test_a_duration_is_read(text: str, nanoseconds: int) -> None:
    """Beside the recorded ones of Kubernetes."""
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(("text", "message"), BAD_DURATIONS)
def test_a_bad_duration_is_refused_with_what_is_expected(text: str, message: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_duration(text)
    expected = "expected a Go duration such as '10m' or '1h30m' (units ns, us, ms, s, m, h)"
    assert f"{message}; {expected}" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "a number"),
        (5.5, "a number"),
        (True, "a bool"),
        ({}, "an object"),
        (["1s"], "an array"),
        (None, "null"),
    ],
)
def test_only_strings_are_durations_in_documents(value: object, message: str) -> None:
    with pytest.raises(DurationError, match=f"^{message} is not a duration; "):
        decode_duration(value)


@pytest.mark.parametrize(("text", "nanoseconds"), TIMES)
def test_times_are_read_as_go_reads_them(text: str, nanoseconds: int) -> None:
    assert parse_time(text) == nanoseconds


@pytest.mark.parametrize(("text", "rest"), BAD_TIMES)
def test_a_bad_time_is_refused_in_gos_words_and_ours(text: str, rest: str) -> None:
    with pytest.raises(TimeError, match="is not a time: ") as caught:
        parse_time(text)
    shown = text.replace("\u0660", r"\xd9\xa0")
    assert caught.value.kubernetes_text == f'parsing time "{shown}"{rest}'


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_agree_with_datetime(moment: datetime) -> None:
    nanoseconds = parse_time(moment.isoformat())
    assert nanoseconds % SECOND == moment.microsecond * 1000
    assert nanoseconds // SECOND == (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    assert format_time(nanoseconds) == moment.isoformat()[:19] + "Z"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1969-12-31T23:59:59.9Z", "1969-12-31T23:59:59Z"),
        ("2024-01-01T01:00:00+02:00", "2023-12-31T23:00:00Z"),
        ("0000-01-01T00:00:00+24:00", "-0001-12-31T00:00:00Z"),
        ("9999-12-31T23:00:00-01:00", "10000-01-01T00:00:00Z"),
    ],
)
def test_times_are_written_in_utc_and_whole_seconds(text: str, written: str) -> None:
    assert format_time(parse_time(text)) == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.5Z"),
        ("2026-01-01T00:00:00,500Z", "2026-01-01T00:00:00.5Z"),
        ("2026-01-01T00:00:00.0Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:10Z", "2026-01-01T00:00:10Z"),
        ("2026-01-01T00:00:00.0000000019Z", "2026-01-01T00:00:00.000000001Z"),
        ("1969-12-31T23:59:59.9Z", "1969-12-31T23:59:59.9Z"),
    ],
)
def test_instants_are_written_with_their_fraction(text: str, written: str) -> None:
    assert format_instant(parse_time(text)) == written


@given(st.integers(parse_time("0000-01-01T00:00:00Z"), parse_time("9999-12-31T23:59:59.999999999Z")))
def test_an_instant_is_read_as_it_was_written(nanoseconds: int) -> None:
    assert parse_time(format_instant(nanoseconds)) == nanoseconds
