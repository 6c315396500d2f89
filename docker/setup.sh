#!/bin/bash
# Fills a new SQL Server: the tables, then CDC and a login for them (docker/cdc.sql is the output of
# `python -m airflow_provider_mssql_cdc.setup_sql`, as a test of the suite checks).
set -euo pipefail

here=$(dirname "$0")
script=$(mktemp)

# -x: a password may hold $( ), which sqlcmd would take for a variable of its own.
sql() {
    "${SQLCMD:-/opt/mssql-tools18/bin/sqlcmd}" -C -I -b -x -S sqlserver -U sa -P "$MSSQL_SA_PASSWORD" -i "$1"
}

text=$(cat "$here/cdc.sql")
password=${LOADER_PASSWORD//\'/\'\'}
printf '%s\n' "${text//<password>/"$password"}" >"$script"

sql "$here/tables.sql"

# The server answers before its Agent runs, and CDC makes jobs of the Agent: error 14258 until then.
for attempt in $(seq 60); do
    if said=$(sql "$script" 2>&1); then
        echo "CDC is on, and the login is made."
        exit 0
    fi
    case $said in
        *14258*) echo "SQL Server Agent is starting (attempt $attempt) ..." ;;
        *)
            printf '%s\n' "$said" >&2
            exit 1
            ;;
    esac
    sleep "${PAUSE_SECONDS:-2}"
done
echo "SQL Server Agent has not started; look at the log of the service sqlserver." >&2
exit 1
