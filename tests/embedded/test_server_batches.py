import pytest

from airflow_provider_mssql_cdc.embedded.batches import split_batches


@pytest.mark.parametrize(
    ("script", "batches"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1\nGO\nSELECT 2\ngo\n", ["SELECT 1", "SELECT 2"]),
        ("SELECT 1\r\nGO\r\nSELECT 2", ["SELECT 1", "SELECT 2"]),
        ("INSERT t VALUES (1)\nGO 3", ["INSERT t VALUES (1)"] * 3),
        ("\nGO\n\nGO\n", []),
        ("SELECT 'GO'\nSELECT good", ["SELECT 'GO'\nSELECT good"]),
        ("SELECT 1\n  GO -- done\nSELECT 2", ["SELECT 1", "SELECT 2"]),
    ],
)
def test_a_script_is_cut_at_lines_that_say_go(script, batches):
    assert split_batches(script) == batches
