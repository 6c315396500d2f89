-- table = '[Acme Inc$].[Ledger ]]Entry% [x]'
EXEC sys.sp_spaceused @objname = %(table)s
