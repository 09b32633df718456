"""Hosts that no scheduler gives, reached by paramiko, pdsh or ssh."""
