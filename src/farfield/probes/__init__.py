"""Measurements, one file each: pure functions from arrays to arrays.

A probe never knows where its arrays came from, a trained cell or a checkpoint.
"""
