"""Why an image is pulled or not: what is known and what happened, causes and cures, as text and as documents."""
