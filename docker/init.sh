#!/bin/bash
# Airflow's database, the pool that an example names, and the connection of the examples. The connection
# is stored, not an environment variable: so it is in the UI, where its "Test" works.
set -euo pipefail

airflow db migrate
airflow pools set erp 4 "reads from the ERP database"
airflow connections delete erp >/dev/null 2>&1 || true
# The server of the playground has a certificate of its own making, which is trusted here on purpose.
airflow connections add erp \
    --conn-type mssql_cdc \
    --conn-host sqlserver \
    --conn-port 1433 \
    --conn-schema travel \
    --conn-login loader \
    --conn-password "$LOADER_PASSWORD" \
    --conn-extra '{"encryption": "require", "trust_server_certificate": true}'
