"""Hosts without a scheduler, reached by paramiko, pdsh or ssh."""
