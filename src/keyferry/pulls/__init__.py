"""Use the credentials: pull as the kubelet does, and keep its records of who may use an image that is here."""
