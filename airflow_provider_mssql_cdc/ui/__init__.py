"""A page in Airflow's UI: every table of the configured facts tables, worst first."""
