"""Docker's side of registry logins: config files, the keys in them, and credential helpers."""
