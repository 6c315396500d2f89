# Airflow with this package installed from its folder; docker-compose.yml mounts the folder over it.
FROM apache/airflow:3.3.2-python3.12

USER root
# What mssql-python's ODBC driver loads and its wheel does not bring
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libltdl7 libkrb5-3 libgssapi-krb5-2 \
    && rm -rf /var/lib/apt/lists/*

COPY --chown=airflow:0 pyproject.toml README.md LICENSE /opt/package/
COPY --chown=airflow:0 airflow_provider_mssql_cdc /opt/package/airflow_provider_mssql_cdc
# A new named volume takes its owner from the image
RUN mkdir -p /opt/airflow/lake && chown airflow:0 /opt/package /opt/airflow/lake

USER airflow
# Airflow is named, or pip may put another one in its place
RUN pip install --no-cache-dir 'apache-airflow==3.3.2' --editable '/opt/package[mssql-python]' && pip check
