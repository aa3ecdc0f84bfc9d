"""Docker's registry logins: config files, their keys, and credential helpers."""
