"""kubectl's own preferences, of which the policy for credential plugins matters here."""
