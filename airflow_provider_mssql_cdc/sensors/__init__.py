"""Sensors: tasks that wait for the source."""

from airflow_provider_mssql_cdc.sensors.capture import MssqlCdcCaptureSensor

__all__ = ["MssqlCdcCaptureSensor"]
