"""Requests to and responses from exec credential plugins for clusters."""
