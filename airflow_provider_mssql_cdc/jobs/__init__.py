"""The work itself, one module per task: it joins source, planning and lake, and knows no Airflow.

An operator gives each job a table, an attempt and a way to connect; the job returns values. So a job
runs in a test, in a script or in a task alike.
"""
