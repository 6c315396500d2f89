"""One module per task: a job combines source, planning and lake, and does not depend on Airflow.

An operator passes each job a table, an attempt and a connection factory; the job returns values. So the same
job runs in a test, a script or a task.
"""
