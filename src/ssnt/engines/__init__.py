"""Engines: where independent jobs are done, in processes of this machine or on a Ray cluster."""
