SELECT @@TEXTSIZE AS size_of_text, @@TRANCOUNT AS open_transactions, @@LOCK_TIMEOUT AS lock_wait_ms
