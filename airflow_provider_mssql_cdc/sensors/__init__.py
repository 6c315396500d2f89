"""Sensors: tasks that wait for the source, or for tables to be fresh."""

from airflow_provider_mssql_cdc.sensors.capture import MssqlCdcCaptureSensor
from airflow_provider_mssql_cdc.sensors.freshness import MssqlCdcFreshnessSensor

__all__ = ["MssqlCdcCaptureSensor", "MssqlCdcFreshnessSensor"]
