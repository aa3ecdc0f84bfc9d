"""Durations and times as Go reads and writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.api.meta import (
    decode_duration,
    format_duration,
    format_instant,
    format_time,
    parse_duration,
    parse_time,
)
from keyferry.errors import DurationError, TimeError

SECOND = 1_000_000_000
INT64_MAX = (1 << 63) - 1
LAYOUT = "2006-01-02T15:04:05Z07:00"

DURATIONS = [
    ("0", 0),
    ("-0", 0),
    ("10m", 600 * SECOND),
    ("+1h30m", 5400 * SECOND),
    ("-1.5s", -1_500_000_000),
    ("1.h", 3600 * SECOND),
    (".5s", SECOND // 2),
    ("1us1µs1μs", 3000),
    ("0.9ns", 0),
    ("0.3333333333333333333h", 1200 * SECOND),
    ("1." + "0" * 400 + "1s", SECOND),
    ("0.9999999999999999999999s", SECOND),
    ("0" * 5000 + "1s", SECOND),
    ("2562047h47m16.854775807s", INT64_MAX),
    ("-9223372036854775808ns", -INT64_MAX - 1),
]

BAD_DURATIONS = [
    ("", 'invalid duration ""', "'' is not a duration"),
    ("-", 'invalid duration "-"', "'-' is not a duration"),
    ("h", 'invalid duration "h"', "'h' is not a duration"),
    (".s", 'invalid duration ".s"', "'.s' is not a duration"),
    (" 1s", 'invalid duration " 1s"', "' 1s' is not a duration"),
    ("\u0661s", r'invalid duration "\xd9\xa1s"', "'\u0661s' is not a duration"),
    ("5", 'missing unit in duration "5"', "'5' has a number without a unit"),
    ("1..5s", 'missing unit in duration "1..5s"', "'1..5s' has a number without a unit"),
    ("1d", 'unknown unit "d" in duration "1d"', "'1d' has the unknown unit 'd'"),
    ("1h-1m", 'unknown unit "h-" in duration "1h-1m"', "'1h-1m' has the unknown unit 'h-'"),
    ("9223372036854775808ns", 'invalid duration "9223372036854775808ns"', "is longer than 292 years"),
    ("9223372036854775809", 'invalid duration "9223372036854775809"', "is longer than 292 years"),
    ("2562047h2562047h1d", 'invalid duration "2562047h2562047h1d"', "is longer than 292 years"),
    ("9" * 5000 + "h", f'invalid duration "{"9" * 5000}h"', "is longer than 292 years"),
]

FORMATS = [
    (0, "0s"),
    (1, "1ns"),
    (-1500, "-1.5µs"),
    (100_000_000, "100ms"),
    (999_999, "999.999µs"),
    (1_500_000_000, "1.5s"),
    (60 * SECOND, "1m0s"),
    (600 * SECOND, "10m0s"),
    (36_000 * SECOND, "10h0m0s"),
    (-INT64_MAX - 1, "-2562047h47m16.854775808s"),
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
    ("", 'cannot parse "" as "2006"'),
    ("tomorrow", 'cannot parse "tomorrow" as "2006"'),
    ("2024-01-01", 'cannot parse "" as "T"'),
    ("2024-1-01T00:00:00Z", 'cannot parse "1-01T00:00:00Z" as "01"'),
    ("2024-01-01 00:00:00Z", 'cannot parse " 00:00:00Z" as "T"'),
    ("2024-01-01t00:00:00Z", 'cannot parse "t00:00:00Z" as "T"'),
    ("2024-01-01T00:00:00z", 'cannot parse "z" as "Z07:00"'),
    ("2024-01-01T00:00:00", 'cannot parse "" as "Z07:00"'),
    ("2024-01-01T00:00:00.Z", 'cannot parse ".Z" as "Z07:00"'),
    ("2024-01-01T00:00:00+1:00", 'cannot parse "+1:00" as "Z07:00"'),
    ("2024-01-01T00:00:00*01:00", 'cannot parse "*01:00" as "Z07:00"'),
    ("2024-01-01T00:00:00+\u06601:00", r'cannot parse "+\xd9\xa01:00" as "Z07:00"'),
]

TIMES_OUT_OF_RANGE = [
    ("2024-13-01T00:00:00Z", "month out of range"),
    ("2024-00-01T00:00:00Z", "month out of range"),
    ("2023-02-29T00:00:00Z", "day out of range"),
    ("2024-12-32T00:00:00Z", "day out of range"),
    ("2024-01-00T00:00:00Z", "day out of range"),
    ("2024-01-01T24:00:00Z", "hour out of range"),
    ("2024-01-01T00:60:00Z", "minute out of range"),
    ("2024-12-31T23:59:60Z", "second out of range"),
    ("2024-01-01T00:00:00+25:00", "time zone offset hour out of range"),
    ("2024-01-01T00:00:00+00:61", "time zone offset minute out of range"),
    ("2024-01-01T00:00:00Zulu", 'extra text: "ulu"'),
]


@pytest.mark.parametrize(("text", "nanoseconds"), DURATIONS)
def test_durations_are_read_as_go_reads_them(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == decode_duration(text) == nanoseconds


@pytest.mark.parametrize(("text", "kubernetes_text", "message"), BAD_DURATIONS)
def test_bad_durations_are_refused_in_gos_words_and_ours(
    text: str, kubernetes_text: str, message: str
) -> None:
    with pytest.raises(DurationError) as caught:
        parse_duration(text)
    assert caught.value.kubernetes_text == f"time: {kubernetes_text}"
    expected = "expected a Go duration such as '10m' or '1h30m' (units ns, us, ms, s, m, h)"
    assert f"{message}; {expected}" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (5, "number", "a number"),
        (5.5, "number", "a number"),
        (True, "bool", "a bool"),
        ({}, "object", "an object"),
        (["1s"], "array", "an array"),
    ],
)
def test_only_strings_are_durations_in_documents(value: object, kind: str, message: str) -> None:
    with pytest.raises(DurationError, match=f"^{message} is not a duration; expected a string") as caught:
        decode_duration(value)
    assert caught.value.kubernetes_text == f"json: cannot unmarshal {kind} into Go value of type string"


def test_null_is_no_duration() -> None:
    with pytest.raises(DurationError, match=r"^null is not a duration; ") as caught:
        decode_duration(None)
    assert caught.value.kubernetes_text == 'time: invalid duration ""'


@pytest.mark.parametrize(("nanoseconds", "text"), FORMATS)
def test_durations_are_written_as_go_writes_them(nanoseconds: int, text: str) -> None:
    assert format_duration(nanoseconds) == text


@given(st.text("0123456789.+-smhnuµ d") | st.text())
def test_any_text_is_a_duration_or_a_duration_error(text: str) -> None:
    try:
        assert -INT64_MAX - 1 <= parse_duration(text) <= INT64_MAX
    except DurationError as error:
        assert error.kubernetes_text.startswith("time: ")


@pytest.mark.parametrize(("text", "nanoseconds"), TIMES)
def test_times_are_read_as_go_reads_them(text: str, nanoseconds: int) -> None:
    assert parse_time(text) == nanoseconds


@pytest.mark.parametrize(("text", "detail"), BAD_TIMES)
def test_times_of_another_form_are_refused(text: str, detail: str) -> None:
    with pytest.raises(TimeError, match=r"is not a time: found .* expected an RFC 3339 time") as caught:
        parse_time(text)
    prefix, _, rest = caught.value.kubernetes_text.partition(": ")
    assert prefix.startswith('parsing time "')
    assert prefix.endswith(f'" as "{LAYOUT}"')
    assert rest == detail


@pytest.mark.parametrize(("text", "detail"), TIMES_OUT_OF_RANGE)
def test_times_that_do_not_exist_are_refused(text: str, detail: str) -> None:
    with pytest.raises(TimeError) as caught:
        parse_time(text)
    assert caught.value.kubernetes_text == f'parsing time "{text}": {detail}'
    assert f"{text!r} is not a time: {detail}; " in str(caught.value)


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


@given(st.text("0123456789-:TZ.,+ ") | st.text())
def test_any_text_is_a_time_or_a_time_error(text: str) -> None:
    try:
        parse_time(text)
    except TimeError as error:
        assert error.kubernetes_text.startswith("parsing time ")
