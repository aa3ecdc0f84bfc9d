"""Sessions spoken in the language of each HTTP library; each adapter is an extra."""
