"""The errors of change data capture, by number, with SQL Server's texts.

Source: "Database engine events and errors (22000 to 22999)" in SQL Server's documentation.
"""

from __future__ import annotations

from airflow_provider_mssql_cdc.embedded.seam import SqlError

_TEXTS = {
    22901: "The database '{}' is not enabled for Change Data Capture. Ensure that the correct database "
    "context is set and retry the operation. To report on the databases enabled for Change Data "
    "Capture, query the is_cdc_enabled column in the sys.databases catalog view.",
    22902: "Caller is not authorized to initiate the requested action. {} privileges are required.",
    22904: "Caller is not authorized to initiate the requested action. DBO privileges are required.",
    22905: "Database '{}' is already enabled for Change Data Capture. Ensure that the correct database "
    "context is set, and retry the operation. To report on the databases enabled for Change Data "
    "Capture, query the is_cdc_enabled column in the sys.databases catalog view.",
    22906: "The database '{}' cannot be enabled for Change Data Capture because a database user named 'cdc' "
    "or a schema named 'cdc' already exists in the current database. These objects are required "
    "exclusively by Change Data Capture. Drop or rename the user or schema and retry the operation.",
    22907: "Parameter @role_name cannot be empty. Specify a value for @role_name and retry the operation. "
    "Supply null as the value if no role is to be used to gate access to captured change data.",
    22920: "The named capture instance {} does not exist for database {}.",
    22926: "Could not create a capture instance because the capture instance name '{}' already exists in the"
    " current database. Specify an explicit unique name for the parameter @capture_instance.",
    22927: "Capture instance name '{}' exceeds the length limit of 100 characters. Specify a name that "
    "satisfies the length constraint.",
    22928: "Index name '{}' is not an index for table '{}.{}'. Specify a valid index name for the table.",
    22929: "Index '{}' must be either a primary key or a unique index for table '{}.{}'. Specify an index "
    "that meets at least one of these requirements.",
    22931: "Source table '{}.{}' does not exist in the current database. Ensure that the correct database "
    "context is set. Specify a valid schema and table name for the database.",
    22939: "The parameter @supports_net_changes is set to 1, but the source table does not have a primary "
    "key defined and no alternate unique index has been specified.",
    22942: "Columns specified in the captured column list could not be mapped to columns in source table "
    "'{}.{}'. Verify that the columns specified in the parameter @captured_column_list are delimited "
    "properly and match columns in the source table.",
    22943: "Columns used to uniquely identify a row for net change tracking must be included in the list of "
    "captured columns. Add either the primary key columns of the source table, or the columns defined"
    " for the index specified in the parameter @index_name to the list of captured columns and retry "
    "the operation.",
    22957: "LSN {}, specified as the new low end point for the change table associated with capture instance"
    " '{}', is not within the Change Data Capture timeline [{}, {}].",
    22960: "Change data capture instance '{}' has not been enabled for the source table '{}.{}'. Use "
    "sys.sp_cdc_help_change_data_capture to verify the capture instance name and retry the operation.",
    22962: "Two capture instances already exist for source table '{}.{}'. A table can have at most two "
    "capture instances. If the current tracking options are not appropriate, disable change tracking "
    "for the obsolete instance by using sys.sp_cdc_disable_table and retry the operation.",
    22963: "Parameter '{}' cannot be null or empty. Specify a value for the named parameter and retry the "
    "operation.",
    22965: "A quoted column in the column list is not properly terminated. Verify that columns are correctly"
    " delimited and retry the operation. For more information, see 'Delimited Identifiers' in Books "
    "Online.",
    22972: "When calling stored procedure [sys].sp_cdc_help_change_data capture, if either @source_schema or"
    " @source_name is non-null and non-empty, the other parameter must also be non-null and non-"
    "empty.",
    22974: "Tables contained in the cdc schema cannot be enabled for Change Data Capture.",
    22975: "Source table '{}' contains one of the following reserved column names: __$start_lsn, __$end_lsn,"
    " __$seqval, __$operation, and __$update_mask. To enable Change Data Capture for this table, "
    "specify a captured column list and ensure that these columns are excluded from the list.",
    22981: "Object does not exist or access is denied.",
    22985: "Change data capture has not been enabled for source table '{}.{}'. Specify the name of a table "
    "enabled for Change Data Capture. To report on the tables enabled for Change Data Capture, query "
    "the is_tracked_by_cdc column in the sys.tables catalog view.",
    22989: "Could not enable Change Data Capture for database '{}'. Change data capture is not supported on "
    "system databases, or on a distribution database.",
}


def cdc_error(number: int, *arguments: object) -> SqlError:
    """The error with this number, its text filled in."""
    return SqlError(number, _TEXTS[number].format(*arguments))
