-- at = '2024-03-31T01:15:00'
-- zone = 'W. Europe Standard Time'
SELECT g.step, CONVERT(varchar(19), CAST(
       DATEADD(minute, 15 * g.step, CAST(%(at)s AS datetime2(0))) AT TIME ZONE 'UTC' AT TIME ZONE %(zone)s AS datetime2(0)), 126) AS local_time
FROM (VALUES (-8), (-7), (-6), (-5), (-4), (-3), (-2), (-1), (0), (1), (2), (3), (4), (5), (6), (7), (8)) AS g(step)
ORDER BY g.step
