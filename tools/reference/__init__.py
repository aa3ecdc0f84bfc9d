"""The generated reference pages: names of the library, settings, codes."""
